package argcheck

import (
	"errors"
	"math"
	"unicode/utf8"

	"github.com/mcpvisor/mcpvisor/internal/pattern"
)

// number compares the keywords about numbers.
func (c *check) number(s, v, _ int) verdict {
	out := yes
	if first := c.args.First(v); first != '-' && (first < '0' || first > '9') {
		return out
	}
	n, ok := c.float(&c.args, v)
	if !ok {
		return maybe
	}
	for _, rule := range [...]struct {
		keyword string
		broken  func(n, limit float64) bool
	}{
		{"exclusiveMinimum", func(n, limit float64) bool { return n <= limit }},
		{"exclusiveMaximum", func(n, limit float64) bool { return n >= limit }},
		{"minimum", func(n, limit float64) bool { return n < limit }},
		{"maximum", func(n, limit float64) bool { return n > limit }},
	} {
		limit, ok := c.limit(s, rule.keyword, &out)
		switch {
		case !ok:
		case n == limit && math.Abs(n) >= largeNumber: // which is larger is not known
			out = min(out, maybe)
		case rule.broken(n, limit):
			return c.fail(problem{rule: rule.keyword, schema: s, value: v})
		}
	}
	// Divisors such as 0.01 have no exact value: 19.99 would be no multiple of it.
	if divisor, ok := c.limit(s, "multipleOf", &out); !ok {
	} else if divisor < 1.0/1024 || divisor > math.MaxInt32 || divisor*1024 != math.Trunc(divisor*1024) || math.Abs(n) >= largeNumber {
		out = min(out, maybe)
	} else if math.Mod(n, divisor) != 0 {
		return c.fail(problem{rule: "multipleOf", schema: s, value: v})
	}
	return out
}

// limit returns the number that a keyword has as its value. Draft 4 has booleans that make
// a bound exclusive; without them it allows more.
func (c *check) limit(s int, w string, out *verdict) (n float64, ok bool) {
	i, ok := c.node(s, w, "-0123456789", out)
	if !ok {
		return 0, false
	}
	if n, ok = c.float(&c.schema, i); !ok {
		*out = min(*out, maybe)
	}
	return n, ok
}

// size compares a length with two keywords.
func (c *check) size(s, v int, least, most string, count func() int) verdict {
	out := yes
	for _, w := range [...]string{least, most} {
		limit, ok := c.limit(s, w, &out)
		switch {
		case !ok:
			continue
		case limit < 0 || limit > math.MaxInt32 || limit != math.Trunc(limit):
			out = min(out, maybe)
			continue
		}
		if n := count(); w == least && n < int(limit) || w == most && n > int(limit) {
			return c.fail(problem{rule: w, schema: s, value: v, count: n})
		}
	}
	return out
}

// string compares the keywords about texts.
func (c *check) string(s, v, _ int) verdict {
	out := yes
	if c.args.First(v) != '"' {
		return out
	}
	if p, ok := c.node(s, "pattern", `"`, &out); ok {
		matches := c.matches(c.text(&c.schema, p), v)
		if matches == no {
			return c.fail(problem{rule: "pattern", schema: s, value: v})
		}
		out = min(out, matches)
	}
	if c.has(s, "format") {
		out = min(out, maybe)
	}
	return min(out, c.size(s, v, "minLength", "maxLength", func() int {
		return utf8.RuneCountInString(c.text(&c.args, v))
	}))
}

// matches compares a text of the arguments with a regular expression.
func (c *check) matches(expression string, v int) verdict {
	compiled, known := c.patterns.Get(expression)
	if !known {
		if !c.spend(pattern.CompileSteps(expression)) {
			return maybe
		}
		compiled = c.patterns.Compile(expression)
	}
	if errors.Is(compiled.Err, pattern.ErrTooLarge) {
		c.note(compiled.Err.Error())
	}
	text := c.text(&c.args, v)
	if compiled.Err != nil || !c.spend(compiled.Steps(text)) {
		return maybe
	}
	return verdictOf(compiled.Matches(text))
}

// object compares the keywords about objects.
func (c *check) object(s, v, depth int) verdict {
	out := yes
	if c.args.First(v) != '{' {
		return out
	}
	for _, rules := range [...]func(*check, int, int, int) verdict{(*check).required, (*check).undeclared, (*check).members, (*check).dependent} {
		if out = min(out, rules(c, s, v, depth)); out == no && c.enough() {
			return no
		}
	}
	if c.has(s, "unevaluatedProperties") {
		out = min(out, maybe)
	}
	return min(out, c.size(s, v, "minProperties", "maxProperties", func() (n int) {
		for range c.names(&c.args, v) {
			n++
		}
		return n
	}))
}

// required compares the names that there must be.
func (c *check) required(s, v, _ int) verdict {
	out := yes
	list, ok := c.node(s, "required", "[", &out)
	if !ok {
		return out
	}
	return min(out, c.allPresent("required", list, s, v))
}

// allPresent compares the names of a list with those of an object.
func (c *check) allPresent(rule string, list, s, v int) verdict {
	out := yes
	for i := list + 1; i < c.schema.Next(list) && c.spend(1); i = c.schema.Next(i) {
		if c.schema.First(i) != '"' {
			out = min(out, maybe)
			continue
		}
		name := c.text(&c.schema, i)
		switch {
		case c.member(&c.args, v, name) != 0:
		case c.hasDefault(s, name): // a server that declares one takes it, although JSON Schema does not say so
			out = min(out, maybe)
		default:
			if out = c.fail(problem{rule: rule, schema: s, value: v, name: i}); c.enough() {
				return no
			}
		}
	}
	return out
}

// hasDefault reports whether a property declares a value that stands for a missing one.
func (c *check) hasDefault(s int, name string) bool {
	var out verdict
	properties, ok := c.node(s, "properties", "{", &out)
	if !ok {
		return false
	}
	property := c.member(&c.schema, properties, name)
	return property != 0 && c.schema.First(property) == '{' && c.keyword(property, "default") != 0
}

// declared iterates over the schemas of a name in properties and patternProperties. certain
// is yes if there is one, and maybe if it is not known.
func (c *check) declared(s int, name int, each func(s int)) (certain verdict) {
	out := yes
	if properties, ok := c.node(s, "properties", "{", &out); ok {
		if s := c.member(&c.schema, properties, c.text(&c.args, name)); s != 0 {
			certain = yes
			each(s)
		}
	}
	if patterns, ok := c.node(s, "patternProperties", "{", &out); ok {
		for p := range c.names(&c.schema, patterns) {
			matches := c.matches(c.text(&c.schema, p), name)
			if certain = max(certain, matches); matches == yes {
				each(p + 1)
			} else if matches == maybe {
				out = maybe
			}
		}
	}
	if out == maybe { // one of the keywords cannot be read
		certain = max(certain, maybe)
	}
	return certain
}

// undeclared compares the names that there may not be.
func (c *check) undeclared(s, v, _ int) verdict {
	out := yes
	if more := c.keyword(s, "additionalProperties"); more != 0 && c.schema.First(more) != 'f' || more == 0 && !c.isClosed(s) {
		return out
	}
	for name := range c.names(&c.args, v) {
		certain := c.declared(s, name, func(int) {})
		if certain == maybe {
			out = min(out, maybe)
		}
		if certain == no {
			if out = c.fail(problem{rule: "additionalProperties", schema: s, value: v, name: name}); c.enough() {
				return no
			}
		}
	}
	return out
}

// isClosed reports whether a strict check refuses names that the schema does not declare,
// although the schema does not say so.
func (c *check) isClosed(s int) bool {
	return c.strict && c.quiet == 0 && c.partial == 0 && c.has(s, "properties") &&
		!c.has(s, "$ref", "$dynamicRef", "$recursiveRef", "patternProperties", "dependencies", "dependentSchemas", "allOf", "anyOf", "oneOf", "if", "unevaluatedProperties")
}

// members compares the names and values of an object.
func (c *check) members(s, v, depth int) verdict {
	out := yes
	more, naming := c.keyword(s, "additionalProperties"), c.keyword(s, "propertyNames")
	if more == 0 && naming == 0 && !c.has(s, "properties", "patternProperties") {
		return out
	}
	for name := range c.names(&c.args, v) {
		certain := c.declared(s, name, func(s int) {
			if !(out == no && c.enough()) {
				out = min(out, c.value(s, name+1, depth+1))
			}
		})
		switch {
		case out == no && c.enough():
			return no
		case certain == maybe:
			out = min(out, maybe)
		case certain == no && more != 0 && c.schema.First(more) != 'f':
			out = min(out, c.value(more, name+1, depth+1))
		}
		if naming != 0 && !(out == no && c.enough()) {
			out = min(out, c.value(naming, name, depth+1))
		}
		if out == no && c.enough() {
			return no
		}
	}
	return out
}

// dependent compares what one property demands of others. dependencies is the keyword of
// drafts up to 7; later ones ignore it.
func (c *check) dependent(s, v, depth int) verdict {
	out := yes
	for _, w := range [...]string{"dependencies", "dependentRequired", "dependentSchemas"} {
		rules, ok := c.node(s, w, "{", &out)
		if !ok {
			continue
		}
		if w == "dependencies" && !c.refAlone {
			out = min(out, maybe)
			continue
		}
		for name := range c.names(&c.schema, rules) {
			if c.member(&c.args, v, c.text(&c.schema, name)) == 0 {
				continue
			}
			switch isList := c.schema.First(name+1) == '['; {
			case isList && w != "dependentSchemas":
				out = min(out, c.allPresent("dependentRequired", name+1, s, v))
			case !isList && w != "dependentRequired":
				out = min(out, c.part(name+1, v, depth))
			default:
				out = min(out, maybe)
			}
			if out == no && c.enough() {
				return no
			}
		}
	}
	return out
}

// array compares the keywords about lists. Drafts up to 2019-09 have lists in items, and
// additionalItems for the rest.
func (c *check) array(s, v, depth int) verdict {
	out := yes
	if c.args.First(v) != '[' {
		return out
	}
	prefix, rest := c.keyword(s, "prefixItems"), c.keyword(s, "items")
	if rest != 0 && c.schema.First(rest) == '[' {
		prefix, rest = rest, c.keyword(s, "additionalItems")
	}
	if prefix != 0 && c.schema.First(prefix) != '[' || prefix == c.keyword(s, "items") && prefix != 0 && !c.tuples {
		prefix, rest, out = 0, 0, maybe
	}
	count, next := 0, prefix+1
	for i := v + 1; i < c.args.Next(v) && c.spend(1); i = c.args.Next(i) {
		count++
		if prefix != 0 && next < c.schema.Next(prefix) {
			out = min(out, c.value(next, i, depth+1))
			next = c.schema.Next(next)
		} else if rest != 0 {
			out = min(out, c.value(rest, i, depth+1))
		}
		if out == no && c.enough() {
			return no
		}
	}
	if u := c.keyword(s, "uniqueItems"); u != 0 && c.schema.First(u) != 'f' || c.has(s, "unevaluatedItems") {
		out = min(out, maybe)
	}
	out = min(out, c.size(s, v, "minItems", "maxItems", func() int { return count }))
	if out == no && c.enough() {
		return no
	}
	return min(out, c.contains(s, v, depth))
}

// contains compares contains with minContains and maxContains.
func (c *check) contains(s, v, depth int) verdict {
	out := yes
	wanted, ok := c.node(s, "contains", "{tf", &out)
	if !ok {
		return out
	}
	certain, possible := 0, 0
	for i := v + 1; i < c.args.Next(v) && c.spend(1); i = c.args.Next(i) {
		switch c.quietly(wanted, i, depth) {
		case yes:
			certain++
			possible++
		case maybe:
			possible++
		default:
		}
	}
	least, most := 1.0, math.Inf(1)
	if n, ok := c.limit(s, "minContains", &out); ok {
		least = n
	} else if c.has(s, "minContains") {
		least = 0
	}
	if n, ok := c.limit(s, "maxContains", &out); ok {
		most = n
	}
	switch {
	case float64(possible) < least:
		return c.fail(problem{rule: "contains", schema: s, value: v, count: possible})
	case float64(certain) > most:
		return c.fail(problem{rule: "maxContains", schema: s, value: v, count: certain})
	case float64(certain) < least || float64(possible) > most:
		return maybe
	}
	return out
}
