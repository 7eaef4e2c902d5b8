package schema

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/pattern"
)

// Anthropic describes a tool for Anthropic's Messages API: {"name", "description",
// "input_schema"}.
func Anthropic(t mcpvisor.Tool) (tool map[string]any, changed []Note) {
	n := notes{tool: t.Name}
	m := jsonSchema(t, &n)
	dropKeys(m, &n)
	tool = map[string]any{"name": name(t), "input_schema": m}
	describe(tool, t, 0, &n)
	return tool, n.all()
}

// anthropicKey matches the names of parameters that Anthropic accepts. Names within are free.
var anthropicKey = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`)

// dropKeys removes the parameters whose names Anthropic rejects. Another name would mean
// nothing to the server.
func dropKeys(m map[string]any, n *notes) {
	properties, _ := m["properties"].(map[string]any)
	list, _ := m["required"].([]any)
	required := make(map[any]bool, len(list))
	for _, name := range list {
		required[name] = true
	}
	for _, key := range slices.Sorted(maps.Keys(properties)) {
		if anthropicKey.MatchString(key) {
			continue
		}
		delete(properties, key)
		why := ""
		if required[key] {
			why = "; the tool requires it, so calls will fail"
			delete(required, key)
		}
		n.add(nil, "the parameter %.80q was removed: the provider takes names of 1 to 64 characters of [a-zA-Z0-9_.-]%s", key, why)
	}
	kept := slices.DeleteFunc(slices.Clone(list), func(e any) bool { return !required[e] })
	if len(kept) < len(list) {
		m["required"] = kept
	}
	if len(kept) == 0 {
		delete(m, "required")
	}
}

// OpenAI describes a tool for OpenAI's chat completions, and for the many providers that
// take the same: {"type": "function", "function": {"name", "description", "parameters"}}.
func OpenAI(t mcpvisor.Tool) (function map[string]any, changed []Note) {
	n := notes{tool: t.Name}
	f := map[string]any{"name": name(t), "parameters": openAIParameters(t, &n)}
	describe(f, t, maxDescription, &n)
	return map[string]any{"type": "function", "function": f}, n.all()
}

// OpenAIResponses describes a tool for OpenAI's Responses API, which has no object around
// the function: {"type": "function", "name", "description", "parameters", "strict"}.
// "strict" is false: the default of that API, true, rejects most schemas.
func OpenAIResponses(t mcpvisor.Tool) (function map[string]any, changed []Note) {
	n := notes{tool: t.Name}
	f := map[string]any{"type": "function", "name": name(t), "parameters": openAIParameters(t, &n), "strict": false}
	describe(f, t, maxDescription, &n)
	return f, n.all()
}

// openAIParameters returns the input schema as OpenAI takes it: every object has
// properties, every array has items, and Python can compile every pattern.
func openAIParameters(t mcpvisor.Tool, n *notes) map[string]any {
	m := jsonSchema(t, n)
	room := patternRoom(maxPatternSteps)
	each(m, nil, func(m map[string]any, at path) {
		names := types(m)
		if _, has := m["properties"]; !has && slices.Contains(names, "object") {
			n.add(at, "properties were added to an object without them")
			m["properties"] = map[string]any{}
		}
		if _, has := m["items"]; !has && slices.Contains(names, "array") {
			n.add(at, "items were added to an array without them")
			m["items"] = map[string]any{}
		}
		room.dropPatterns(m, at, n)
	})
	return m
}

// patternRoom is how many steps of package pattern the further regular expressions of one
// tool may have.
type patternRoom int

// maxPatternSteps bounds all regular expressions of one tool, in the steps of package
// pattern: who reads the schema compiles them. patternBytesPerStep is how much of their text
// is one step, because the text is parsed here.
const (
	maxPatternSteps     = 5000
	patternBytesPerStep = 16
)

// dropPatterns removes the regular expressions that providers cannot compile, and those that
// have no room.
func (r *patternRoom) dropPatterns(m map[string]any, at path, n *notes) {
	if p, ok := m["pattern"].(string); ok && !r.takes(p) {
		n.add(at, "pattern was removed: the provider cannot compile it")
		delete(m, "pattern")
	}
	if patterns, ok := m["patternProperties"].(map[string]any); ok {
		for _, p := range slices.Sorted(maps.Keys(patterns)) {
			if !r.takes(p) {
				n.add(at, "a pattern of patternProperties was removed: the provider cannot compile it")
				delete(patterns, p)
				allowOthers(m)
			}
		}
		if len(patterns) == 0 {
			delete(m, "patternProperties")
		}
	}
}

// allowOthers lets a schema allow any further properties: what it no longer describes would
// be among them.
func allowOthers(m map[string]any) { delete(m, "additionalProperties") }

// plainEscapes are the letters that may follow a backslash in JavaScript, Python and Go
// with the same meaning.
const plainEscapes = "dDwWsSbBnrtfv"

// takes reports whether a regular expression can be compiled and has room.
func (r *patternRoom) takes(p string) bool {
	if !isPlainPattern(p) {
		return false
	}
	if *r -= patternRoom(1 + len(p)/patternBytesPerStep); *r < 0 {
		return false
	}
	steps, err := pattern.Steps(p, int(*r))
	*r -= patternRoom(steps)
	return err == nil
}

// isPlainPattern reports whether the text of a regular expression means the same to JavaScript,
// Python and Go: no lookaround, named groups, flags, and no escapes beyond the usual.
func isPlainPattern(p string) bool {
	for i := 0; i < len(p); i++ {
		switch p[i] {
		case '\\':
			if i++; i == len(p) {
				return false
			}
			if c := p[i]; (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9') && !strings.ContainsRune(plainEscapes, rune(c)) {
				return false
			}
		case '(':
			if strings.HasPrefix(p[i:], "(?") && !strings.HasPrefix(p[i:], "(?:") {
				return false
			}
		}
	}
	return true
}

// Gemini describes a tool for Google's Gemini API and Vertex AI, as an element of
// "functionDeclarations": {"name", "description", "parametersJsonSchema"}. The schema uses
// only the keywords that Gemini documents.
//
// parametersJsonSchema is there even for a tool without parameters: the function calling
// mode ANY rejects declarations without it.
func Gemini(t mcpvisor.Tool) (declaration map[string]any, changed []Note) {
	n := notes{tool: t.Name}
	m := normalSchema(t, &n, geminiDepth)
	each(m, nil, func(m map[string]any, at path) { toGemini(m, at, &n) })
	declaration = map[string]any{"name": name(t), "parametersJsonSchema": m}
	describe(declaration, t, 0, &n)
	return declaration, n.all()
}

// geminiDepth bounds the nesting for Gemini, which rejects deep schemas without saying
// where its bound is.
const geminiDepth = 16

// geminiKeywords are the keywords that Gemini knows.
var geminiKeywords = []string{"type", "format", "title", "description", "enum", "items", "prefixItems", "minItems", "maxItems",
	"minimum", "maximum", "anyOf", "properties", "additionalProperties", "required"}

// geminiFormats are the formats that Gemini knows.
var geminiFormats = []string{"date-time", "date", "time", "int32", "int64", "float", "double"}

// toGemini changes one schema in normal form to what Gemini takes.
func toGemini(m map[string]any, at path, n *notes) {
	constToEnum(m, at, n)
	geminiEnum(m, at, n)
	if f, ok := m["format"].(string); ok && !slices.Contains(geminiFormats, f) {
		n.add(at, "the format %.40q was removed: Gemini does not know it", f)
		delete(m, "format")
	}
	for _, side := range [][2]string{{"exclusiveMinimum", "minimum"}, {"exclusiveMaximum", "maximum"}} {
		if bound, ok := m[side[0]].(float64); ok {
			if _, has := m[side[1]]; !has {
				n.add(at, "%s was replaced by %s, which allows the bound itself", side[0], side[1])
				m[side[1]] = bound
			}
			delete(m, side[0])
		}
	}
	keepOnly(m, geminiKeywords, at, n, "Gemini")
	if slices.Contains(types(m), "array") && m["items"] == nil && m["prefixItems"] == nil {
		n.add(at, "items were added to an array without them")
		m["items"] = map[string]any{}
	}
	requireDefined(m, at, n)
}

// constToEnum writes "const" as an "enum" of one value.
func constToEnum(m map[string]any, at path, n *notes) {
	v, ok := m["const"]
	if !ok {
		return
	}
	n.add(at, "const was replaced by enum")
	delete(m, "const")
	m["enum"] = []any{v}
}

// geminiEnum keeps an enum of texts or numbers. Null in it becomes an alternative.
func geminiEnum(m map[string]any, at path, n *notes) {
	list, ok := m["enum"].([]any)
	if !ok {
		return
	}
	values := slices.DeleteFunc(slices.Clone(list), func(v any) bool { return v == nil })
	names := types(m)
	mayBeNull := len(values) < len(list) && (len(names) == 0 || slices.Contains(names, "null"))
	kind, uniform := enumType(values)
	_, hasAlternatives := m["anyOf"]
	switch {
	case len(values) == 0:
		n.add(at, "enum was replaced by the type null")
		delete(m, "enum")
		m["type"] = "null"
	case !uniform, mayBeNull && hasAlternatives:
		n.add(at, "enum was removed: Gemini takes texts or numbers there, and not both")
		delete(m, "enum")
	case mayBeNull:
		n.add(at, "null in enum was replaced by an alternative")
		delete(m, "enum")
		delete(m, "type")
		m["anyOf"] = []any{map[string]any{"type": kind, "enum": values}, map[string]any{"type": "null"}}
	default:
		m["enum"] = values
		if len(names) == 0 {
			m["type"] = kind
		}
	}
}

// enumType returns the type of values that are all texts, or all numbers.
func enumType(values []any) (name string, uniform bool) {
	for i, v := range values {
		own := ""
		switch v.(type) {
		case string:
			own = "string"
		case float64:
			own = "number"
		}
		if own == "" || i > 0 && own != name {
			return "", false
		}
		name = own
	}
	return name, true
}

// keepOnly removes the keywords that a provider does not know.
func keepOnly(m map[string]any, known []string, at path, n *notes, provider string) {
	for _, keyword := range slices.Sorted(maps.Keys(m)) {
		if !slices.Contains(known, keyword) {
			n.add(at, "%.40s was removed: %s does not know it", keyword, provider)
			if keyword == "patternProperties" {
				allowOthers(m)
			}
			delete(m, keyword)
		}
	}
}

// requireDefined removes the names from "required" that no property has.
func requireDefined(m map[string]any, at path, n *notes) {
	list, ok := m["required"].([]any)
	if !ok {
		return
	}
	properties, _ := m["properties"].(map[string]any)
	defined := slices.DeleteFunc(slices.Clone(list), func(e any) bool {
		s, _ := e.(string)
		_, has := properties[s]
		return !has
	})
	if len(defined) == len(list) {
		return
	}
	n.add(at, "a required name that no property has was removed")
	if m["required"] = defined; len(defined) == 0 {
		delete(m, "required")
	}
}

// Ollama describes a tool for Ollama's chat API, in the form of OpenAI. Ollama reads a part of
// JSON Schema and ignores the rest, so the rest is removed, with a Note.
func Ollama(t mcpvisor.Tool) (tool map[string]any, changed []Note) {
	n := notes{tool: t.Name}
	m := jsonSchema(t, &n)
	toOllama(m, ollamaRoot, nil, &n)
	f := map[string]any{"name": name(t), "parameters": m}
	describe(f, t, 0, &n)
	return map[string]any{"type": "function", "function": f}, n.all()
}

// What Ollama reads at the top level, and in each property. It passes "items" on as they
// are.
var (
	ollamaRoot     = []string{"type", "properties", "required"}
	ollamaProperty = []string{"type", "description", "enum", "items", "anyOf", "properties"}
)

// toOllama changes a schema in normal form to what Ollama reads.
func toOllama(m map[string]any, known []string, at path, n *notes) {
	constToEnum(m, at, n)
	dropRest(m, at, n)
	keepOnly(m, known, at, n, "Ollama")
	properties, _ := m["properties"].(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(properties)) {
		if s, ok := properties[key].(map[string]any); ok {
			toOllama(s, ollamaProperty, at.to("properties").to(key), n)
		}
	}
	list, _ := m["anyOf"].([]any)
	for i, e := range list {
		if s, ok := e.(map[string]any); ok {
			toOllama(s, ollamaProperty, at.at("anyOf", i), n)
		}
	}
}
