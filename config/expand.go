package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// expand replaces the variables in a text; docs/config.md lists them. What
// a variable holds is not expanded again. Errors name variables, never values.
func (p *parser) expand(text string) (string, error) {
	var out strings.Builder
	for {
		i := strings.Index(text, "${")
		if i < 0 {
			out.WriteString(text)
			return out.String(), nil
		}
		if i > 0 && text[i-1] == '$' { // $${ is a literal ${
			out.WriteString(text[:i-1] + "${")
			text = text[i+2:]
			continue
		}
		out.WriteString(text[:i])
		end := strings.IndexByte(text[i:], '}')
		if end < 0 {
			return "", errors.New("a ${ has no }; close it, or write $${ for the two characters")
		}
		value, err := p.variable(text[i+2 : i+end])
		if err != nil {
			return "", err
		}
		out.WriteString(value)
		text = text[i+end+1:]
	}
}

// variable returns the value of the expression between ${ and }.
func (p *parser) variable(expr string) (string, error) {
	switch expr {
	case "workspaceFolder":
		return p.text.workspace, nil
	case "workspaceFolderBasename":
		return filepath.Base(p.text.workspace), nil
	case "userHome":
		return homeDir()
	case "pathSeparator", "/":
		return string(filepath.Separator), nil
	}
	if id, ok := strings.CutPrefix(expr, "input:"); ok {
		return p.inputValue(id)
	}
	if path, ok := strings.CutPrefix(expr, "file:"); ok {
		return p.storedSecret(p.fileValue(path))
	}
	if entry, ok := strings.CutPrefix(expr, "keyring:"); ok {
		return p.storedSecret(p.keyringValue(entry))
	}
	expr = strings.TrimPrefix(expr, "env:")
	name, def, hasDefault := strings.Cut(expr, ":-")
	if n := variableLen(name); n == 0 || n < len(name) {
		// The rest of the expression may be a misspelt default, and a secret.
		return "", fmt.Errorf("${%s…} is not a variable; write ${NAME} or ${NAME:-default}, and $${ for the two characters", name[:n])
	}
	if strings.Contains(def, "${") { // the } that was found closes the inner variable
		return "", fmt.Errorf("the default of ${%s:-…} holds another ${, and defaults do not nest; set %s, or write a plain default", name, name)
	}
	value, set := p.lookup(name)
	switch {
	case set && (value != "" || !hasDefault):
		return value, nil
	case hasDefault:
		return def, nil
	}
	return "", fmt.Errorf("environment variable %s is not set; set it before this program starts, or write ${%s:-default}", name, name)
}

// variableLen returns how many bytes at the start of a text can name a variable.
func variableLen(text string) int {
	for i := range len(text) {
		c := text[i]
		letter := c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return i
		}
	}
	return len(text)
}

// expandPath is expand for a path: ~ at its start is the home directory. A ~ in
// the value of a variable stays.
func (p *parser) expandPath(text string) (string, error) {
	path, err := p.expand(text)
	tilde := text == "~" || strings.HasPrefix(text, "~/") || strings.HasPrefix(text, "~"+string(filepath.Separator))
	if err != nil || !tilde {
		return path, err
	}
	dir, err := homeDir()
	if err != nil {
		return "", err
	}
	return dir + path[1:], nil
}

func homeDir() (string, error) {
	dir, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("the home directory is not known; write the path in full: %w", err)
	}
	return dir, nil
}
