package config

import (
	"bufio"
	"bytes"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcpvisor/mcpvisor/internal/regularfile"
)

// readEnvFile reads a file of NAME=value lines. A line that is something else
// costs itself, with a warning. A file that cannot be read costs the entry.
func (e *entry) readEnvFile(v *hujson.Value) {
	shown, ok := e.readString(v)
	if !ok {
		return
	}
	path := e.readFilePath(v)
	if path == "" {
		return
	}
	text, err := regularfile.Read(path, maxSize)
	if err != nil {
		e.fail(v, "envFile %q cannot be read; create it, or correct the path", shown)
		return
	}
	e.fileEnv = map[string]string{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, ok := parseAssignment(line)
		if !ok {
			e.warn(v, "envFile %q: line %d is ignored, because it is not NAME=value; correct or remove it", shown, n)
			continue
		}
		e.fileEnv[name] = value
	}
	if lines.Err() != nil {
		e.fail(v, "envFile %q cannot be read to its end, because a line is too long; shorten it", shown)
	}
}

// parseAssignment reads NAME=value, with or without export and quotes. Behind quotes a
// comment may stand; without quotes # is a part of the value.
func parseAssignment(line string) (name, value string, ok bool) {
	name, value, ok = strings.Cut(strings.TrimPrefix(line, "export "), "=")
	name, value = strings.TrimSpace(name), strings.TrimSpace(value)
	if !ok || name == "" || variableLen(name) < len(name) {
		return "", "", false
	}
	if value == "" || value[0] != '"' && value[0] != '\'' {
		return name, value, true
	}
	if inner, after, closed := strings.Cut(value[1:], value[:1]); closed && strings.HasPrefix(strings.TrimSpace(after), "#") {
		return name, inner, true
	}
	if len(value) >= 2 && value[len(value)-1] == value[0] {
		value = value[1 : len(value)-1]
	}
	return name, value, true
}

// mergeEnv returns the variables of both, those of over where both have one.
func mergeEnv(under, over map[string]string) map[string]string {
	if len(under) == 0 {
		return over
	}
	for name, value := range over {
		under[name] = value
	}
	return under
}
