package config

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcpvisor/mcpvisor/internal/regularfile"
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
	if line, ok := strings.CutPrefix(expr, "command:"); ok {
		return p.storedSecret(p.commandValue(line))
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
	if err != nil || !beginsAtHome(text) {
		return path, err
	}
	return atHome(path)
}

func beginsAtHome(path string) bool {
	return path == "~" || strings.HasPrefix(path, "~/") || strings.HasPrefix(path, "~"+string(filepath.Separator))
}

// atHome returns a path with the home directory in place of the ~ at its start.
func atHome(path string) (string, error) {
	dir, err := homeDir()
	return dir + path[1:], err
}

func homeDir() (string, error) {
	dir, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("the home directory is not known; write the path in full: %w", err)
	}
	return dir, nil
}

// inputVariablePrefix begins the name of the environment variable that answers
// an input: MCPVISOR_INPUT_API_KEY for ${input:api-key}.
const inputVariablePrefix = "MCPVISOR_INPUT_"

// Input is a value that a file leaves to the user: an element of VS Code's
// "inputs". An input that is used and not declared has only an ID.
type Input struct {
	// ID is the name in ${input:id}.
	ID string
	// Description is the question to the user. It may be empty.
	Description string
	// Default is the answer if the user gives none.
	Default string
	// Options are the answers to choose from. If empty, any text is accepted.
	Options []string
	// Password says that the answer must not be shown while it is typed. It becomes
	// one of the Secrets of the server whose entry uses it.
	Password bool
}

// Variable returns the name of the environment variable that answers the input:
// MCPVISOR_INPUT_ and the ID in capitals, with '_' for every character that
// is not a letter or digit of ASCII.
func (i Input) Variable() string {
	return inputVariablePrefix + strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, i.ID)
}

// answer is the value of an input, or the output of a program of ${command:…}; err says why there is neither.
type answer struct {
	value string
	err   error
}

// inputValue returns the answer to an input. It asks once for each id, even if
// the user does not answer.
func (p *parser) inputValue(id string) (string, error) {
	a, known := p.answers[id]
	if !known {
		a.value, a.err = p.answerInput(id)
		p.answers[id] = a
	}
	if p.inputs[id].Password && a.err == nil {
		p.secrets = append(p.secrets, a.value)
	}
	return a.value, a.err
}

// answerInput takes the value of the variable, else the user's answer, else the
// default.
func (p *parser) answerInput(id string) (string, error) {
	input := p.inputs[id]
	input.ID = id // it need not be declared
	if value, set := p.lookup(input.Variable()); set {
		return value, nil
	}
	if p.ask != nil {
		value, err := p.ask(input)
		if err != nil {
			return "", fmt.Errorf("${input:%s} was not answered; answer it, or set %s: %w", id, input.Variable(), err)
		}
		return value, nil
	}
	if input.Default != "" {
		return input.Default, nil
	}
	return "", fmt.Errorf("${input:%s} needs an answer of the user; set %s, or run the command in a terminal", id, input.Variable())
}

// readInputs reads the declarations at the top of a file. A declaration that
// cannot be read is skipped, because an input needs none.
func (p *parser) readInputs(object *hujson.Object) {
	for m := range membersNamed(object, "inputs") {
		list, _ := m.Value.Value.(*hujson.Array)
		for i := 0; list != nil && i < len(list.Elements); i++ {
			var declaration map[string]any
			if json.Unmarshal(plainJSON(&list.Elements[i]), &declaration) == nil && declaration != nil {
				p.readInput(declaration)
			}
		}
	}
}

func (p *parser) readInput(declaration map[string]any) {
	text := func(key string) string {
		text, _ := declaration[key].(string)
		return text
	}
	password, _ := declaration["password"].(bool)
	input := Input{ID: text("id"), Description: text("description"), Default: text("default"), Password: password}
	options, _ := declaration["options"].([]any)
	for _, option := range options { // of a pickString: texts, or objects with "value"
		if object, ok := option.(map[string]any); ok {
			option = object["value"]
		}
		if text, ok := option.(string); ok {
			input.Options = append(input.Options, text)
		}
	}
	p.inputs[input.ID] = input
}

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
	maps.Copy(under, over)
	return under
}

// maxSecretFile is the longest file of ${file:path}, in bytes. A key or a token is
// shorter; a longer file is probably another one than was meant.
const maxSecretFile = 64 << 10

// storedSecret notes a value that was kept outside of the file and of the environment,
// so that the server of the entry does not show it.
func (p *parser) storedSecret(value string, err error) (string, error) {
	if err == nil {
		p.secrets = append(p.secrets, value)
	}
	return value, err
}

// fileValue returns the content of the file that ${file:path} names, without line breaks
// at its end. A relative path begins at the workspace, ~/ is the home directory.
func (p *parser) fileValue(shown string) (string, error) {
	read, path := readSecret, shown
	switch {
	case path == "":
		return "", errors.New("${file:} names no file; write ${file:/path/of/the/secret}")
	case p.files != nil:
		read = p.files
	case beginsAtHome(path):
		var err error
		if path, err = atHome(path); err != nil {
			return "", err
		}
	case !filepath.IsAbs(path):
		path = filepath.Join(p.text.workspace, path)
	}
	value, err := read(path)
	if err != nil {
		return "", fmt.Errorf("${file:%s}: %w", shown, err)
	}
	return value, nil
}

// readSecret reads a short regular file. Its errors do not name the file.
func readSecret(path string) (string, error) {
	data, err := regularfile.Read(path, maxSecretFile)
	value := strings.TrimRight(string(data), "\r\n")
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "", errors.New("the file does not exist; create it, or correct the path")
	case errors.Is(err, os.ErrPermission):
		return "", errors.New("the file cannot be opened; check its permissions, and those of its directory")
	case errors.Is(err, regularfile.ErrNotRegular), errors.Is(err, regularfile.ErrLong):
		return "", fmt.Errorf("%w; name one that holds the value alone", errors.Unwrap(err))
	case err != nil:
		return "", errors.New("the file cannot be reached or read; check the permissions of its directory, and the disk")
	case value == "":
		return "", errors.New("the file is empty; write the value into it")
	}
	return value, nil
}

// keyringValue returns the entry of the keyring that ${keyring:service/account} names.
func (p *parser) keyringValue(entry string) (string, error) {
	service, account, ok := strings.Cut(entry, "/")
	if !ok || service == "" || account == "" {
		return "", errors.New("${keyring:…} names no entry; write ${keyring:service/account}")
	}
	if p.keyring == nil {
		return "", fmt.Errorf("${keyring:%s} cannot be read, because this program opens no keyring; use ${VAR} or ${file:…}", entry)
	}
	value, err := p.keyring(service, account)
	if err != nil {
		return "", fmt.Errorf("${keyring:%s}: %w", entry, err)
	}
	return value, nil
}

// commandValue returns what the program of ${command:program and arguments} prints. It runs once for all places that name it.
func (p *parser) commandValue(line string) (string, error) {
	words := strings.Fields(line)
	switch {
	case len(words) == 0:
		return "", errors.New("${command:} names no program; write ${command:program and arguments}")
	case p.commands == nil:
		return "", fmt.Errorf("${command:%s} cannot be read, because this program runs no commands; use ${VAR} or ${file:…}", line)
	}
	key := p.text.workspace + "\x00" + strings.Join(words, "\x00")
	printed, known := p.printed[key]
	if !known {
		output, err := p.commands(words, p.text.workspace)
		printed = answer{strings.TrimRight(output, "\r\n"), err}
		p.printed[key] = printed
	}
	switch {
	case printed.err != nil:
		return "", fmt.Errorf("${command:%s}: %w", line, printed.err)
	case printed.value == "":
		return "", fmt.Errorf("${command:%s}: it printed nothing; run it by hand", line)
	}
	return printed.value, nil
}
