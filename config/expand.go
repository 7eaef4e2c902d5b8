package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// expand replaces the variables in a text:
//
//	${VAR}              the environment variable; an error if it is not set
//	${VAR:-default}     the default if it is not set, or empty
//	${env:VAR}          the same as ${VAR}
//	${workspaceFolder}  the directory of the file
//	${userHome}         the user's home directory
//	${input:id}         what the host answers
//	$${                 a literal ${
//
// A bare $VAR is left alone. Errors name variables, never values.
func (r *reader) expand(text string) (string, error) {
	var out strings.Builder
	for {
		i := strings.Index(text, "${")
		if i < 0 {
			out.WriteString(text)
			return out.String(), nil
		}
		if i > 0 && text[i-1] == '$' {
			out.WriteString(text[:i-1] + "${")
			text = text[i+2:]
			continue
		}
		out.WriteString(text[:i])
		end := strings.IndexByte(text[i:], '}')
		if end < 0 {
			return "", fmt.Errorf("a ${ has no }; close it, or write $${ for the two characters")
		}
		value, err := r.variable(text[i+2 : i+end])
		if err != nil {
			return "", err
		}
		out.WriteString(value)
		text = text[i+end+1:]
	}
}

// variable is the value of what stands between ${ and }.
func (r *reader) variable(expr string) (string, error) {
	switch expr {
	case "workspaceFolder":
		return r.workspace, nil
	case "userHome":
		return home()
	case "pathSeparator", "/":
		return string(filepath.Separator), nil
	}
	if id, ok := strings.CutPrefix(expr, "input:"); ok {
		if r.input == nil {
			return "", fmt.Errorf("${input:%s} has to be asked for, and nobody is there to answer; use ${VAR} and set the variable", id)
		}
		value, err := r.input(id)
		if err != nil {
			return "", fmt.Errorf("${input:%s} was not answered: %w", id, err)
		}
		return value, nil
	}
	expr = strings.TrimPrefix(expr, "env:")
	name, def, hasDefault := strings.Cut(expr, ":-")
	if !isVariable(name) {
		return "", fmt.Errorf("${%s} is no variable; use ${NAME} or ${NAME:-default}, and $${ for the two characters", name)
	}
	value, set := r.lookup(name)
	switch {
	case set && (value != "" || !hasDefault):
		return value, nil
	case hasDefault:
		return def, nil
	}
	return "", fmt.Errorf("environment variable %s is not set; set it, or write ${%s:-default}", name, name)
}

func isVariable(name string) bool {
	for i, c := range name {
		letter := c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

// expandPath is expand for a path: ~ at its start is the home directory.
func (r *reader) expandPath(text string) (string, error) {
	path, err := r.expand(text)
	if err != nil || path != "~" && !strings.HasPrefix(text, "~/") {
		return path, err
	}
	dir, err := home()
	if err != nil {
		return "", err
	}
	return dir + strings.TrimPrefix(path, "~"), nil
}

func home() (string, error) {
	dir, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("the home directory is not known; write the path in full: %w", err)
	}
	return dir, nil
}
