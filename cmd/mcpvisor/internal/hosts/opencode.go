package hosts

import (
	"regexp"
	"time"
)

// readOpenCode reads the servers below "mcp", or below "servers" in it, as version 2 has them.
func readOpenCode(text []byte, _ Environment) ([]raw, []input, error) {
	top, err := parseJSON(text)
	if err != nil {
		return nil, nil, err
	}
	list := objectAt(top, "mcp")
	if inner := objectAt(list, "servers"); inner != nil && member(inner, "command") == nil && member(inner, "url") == nil {
		list = inner
	}
	return entriesOf(text, list), nil, nil
}

// openCodeVariable is a variable, or the content of a file, in a text of OpenCode.
var openCodeVariable = regexp.MustCompile(`\{(?:env:([A-Za-z_][A-Za-z0-9_]*)|(file:[^{}]+))\}`)

// openCode converts an entry of OpenCode, whose "timeout" counts milliseconds.
func openCode(entry object) (object, []string, error) {
	entry, _ = take(entry, "type") // "local" or "remote", which the other keys say, too
	entry, env := take(entry, "environment")
	if env != nil {
		entry.Set("env", env)
	}
	entry, timeout := take(entry, "timeout")
	replaced, _ := mapTexts(entry, func(text string) string { return openCodeVariable.ReplaceAllString(text, "$${$1$2}") }).(object)
	converted, notes, err := common(replaced)
	request, start := timeout, any(nil)
	if both, ok := timeout.(object); ok {
		request, start = both.Get("request"), both.Get("startup")
	}
	return setStartTimeout(setCallTimeout(converted, request, time.Millisecond), start, time.Millisecond), notes, err
}
