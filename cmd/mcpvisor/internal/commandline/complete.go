// Package commandline completes command lines of mcpvisor in bash, zsh, fish and PowerShell.
//
// The scripts of the shells are a few lines each. They run "mcpvisor __complete" with the
// words of the line, which knows commands and flags from the model of kong, and names of
// servers and tools from [Names]. A positional argument says by its tag what it is, as in
// `complete:"tool"`.
package commandline

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Complete returns how the last of words may continue. words are those of the line after the
// name of the program; the last one is the word that is being typed, and may be empty.
func Complete(model *kong.Application, words []string, names Names) []Candidate {
	if len(words) == 0 {
		words = []string{""}
	}
	before, word := words[:len(words)-1], words[len(words)-1]
	p := position{node: model.Node}
	for _, w := range before {
		p.pass(w)
	}
	var all []Candidate
	prefix := ""
	switch name, value, isValue := strings.Cut(word, "="); {
	case p.awaits != nil:
		all = values(p.awaits.Tag.Get("complete"))
	case !p.onlyArguments && isValue && strings.HasPrefix(word, "--"):
		if flag := p.flag(name); flag != nil {
			all, prefix, word = values(flag.Tag.Get("complete")), name+"=", value
		}
	case !p.onlyArguments && strings.HasPrefix(word, "-"):
		all = p.flags()
	case len(p.node.Children) > 0:
		all = commands(p.node)
	default:
		all = p.arguments(model, names)
	}
	if len(all) == 1 && all[0].Value == Files {
		return all
	}
	all = slices.DeleteFunc(all, func(c Candidate) bool { return !strings.HasPrefix(c.Value, word) || !isPlainWord(c.Value) })
	for i := range all {
		all[i].Value = prefix + all[i].Value
	}
	return all
}

// isPlainWord reports whether a shell takes a text as it is. Names come from servers, and
// shells insert candidates without quotes: a name such as "x;y" would be a second command.
func isPlainWord(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("_./:=@%+,-", r)
	})
}

// position is where in a line a word is typed.
type position struct {
	node          *kong.Node
	given         []string   // positional arguments of node so far
	awaits        *kong.Flag // whose value is next; nil if none is
	onlyArguments bool       // "--" was given
}

// pass takes a word that was typed before.
func (p *position) pass(word string) {
	switch {
	case p.awaits != nil:
		p.awaits = nil
	case p.onlyArguments:
		p.given = append(p.given, word)
	case word == "--":
		p.onlyArguments = true
	case strings.HasPrefix(word, "-") && word != "-":
		if flag := p.flag(word); flag != nil && !flag.IsBool() && !flag.IsCounter() && !strings.Contains(word, "=") {
			p.awaits = flag
		}
	default:
		for _, child := range p.node.Children {
			if child.Name == word {
				p.node = child
				return
			}
		}
		p.given = append(p.given, word)
	}
}

// flag finds the flag that a word such as --json or -c names; nil if none has the name.
func (p *position) flag(word string) *kong.Flag {
	name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
	for _, group := range p.node.AllFlags(true) {
		for _, flag := range group {
			if strings.HasPrefix(word, "--") && flag.Name == name || !strings.HasPrefix(word, "--") && string(flag.Short) == name {
				return flag
			}
		}
	}
	return nil
}

// flags are those that may be typed here.
func (p *position) flags() (all []Candidate) {
	for _, group := range p.node.AllFlags(true) {
		for _, flag := range group {
			all = append(all, Candidate{"--" + flag.Name, firstSentence(flag.Help)})
		}
	}
	return all
}

// values are those of a kind that this package knows by itself: files, and lists such as "a,b".
func values(kind string) (all []Candidate) {
	switch {
	case kind == kindFile:
		return []Candidate{{Value: Files}}
	case strings.Contains(kind, ","):
		for one := range strings.SplitSeq(kind, ",") {
			all = append(all, Candidate{Value: one})
		}
	}
	return all
}

// arguments are the values of the positional argument that is typed here.
func (p *position) arguments(model *kong.Application, names Names) []Candidate {
	args := p.node.Positional
	if len(args) == 0 {
		return nil
	}
	arg := args[min(len(p.given), len(args)-1)]
	if len(p.given) >= len(args) && !arg.IsCumulative() {
		return nil
	}
	switch kind := arg.Tag.Get("complete"); kind {
	case kindServer, kindMember:
		return slices.DeleteFunc(names(kind, p.given), func(c Candidate) bool { return slices.Contains(p.given, c.Value) })
	case kindCommand:
		return commands(model.Node)
	case "":
		return nil
	default:
		if all := values(kind); all != nil {
			return all
		}
		return names(kind, p.given)
	}
}

func commands(node *kong.Node) (all []Candidate) {
	for _, child := range node.Children {
		if !child.Hidden {
			all = append(all, Candidate{child.Name, firstSentence(child.Help)})
		}
	}
	return all
}

func firstSentence(help string) string {
	first, _, _ := strings.Cut(help, ". ")
	return strings.TrimSuffix(first, ".")
}

// Flag returns the values that a line gives to a flag.
func Flag(model *kong.Application, words []string, name string) (values []string) {
	p := position{node: model.Node}
	for _, word := range words[:max(len(words)-1, 0)] {
		flag := p.awaits
		if flag == nil && !p.onlyArguments && strings.HasPrefix(word, "-") {
			if one := p.flag(word); one != nil && one.Name == name {
				if _, value, ok := strings.Cut(word, "="); ok {
					values = append(values, value)
				}
			}
		}
		if flag != nil && flag.Name == name {
			values = append(values, word)
		}
		p.pass(word)
	}
	return values
}

// SplitLine splits a line of bash into words: those after the name of the program, the last
// of which is being typed. broken is what of that word bash does not expect in candidates:
// up to the last character of breaks (COMP_WORDBREAKS), which bash takes for a word.
func SplitLine(line, breaks string) (words []string, broken string) {
	var word strings.Builder
	var quote rune
	escaped, inWord := false, false
	for _, r := range line {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			escaped, inWord = true, true
		case quote != 0:
			if r == quote {
				quote = 0
			} else {
				word.WriteRune(r)
			}
		case r == '\'' || r == '"':
			quote, inWord = r, true
		case r == ' ' || r == '\t':
			if inWord {
				words = append(words, word.String())
				word.Reset()
			}
			inWord = false
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	last := word.String()
	words = append(words, last)
	return words[min(1, len(words)-1):], last[:strings.LastIndexAny(last, breaks)+1]
}

// These are the kinds of arguments that this package knows by itself, beside lists such as "a,b".
const (
	kindServer  = "server"  // a server; each is given once
	kindMember  = "member"  // a server or a group; each is given once
	kindCommand = "command" // a command of the program
	kindFile    = "file"    // a file
)

// Files is the one candidate that stands for the files of the directory.
const Files = ":files"

// Candidate is one way to complete the last word of a line.
type Candidate struct {
	Value, Description string
}

// Names returns the values of a kind that the tag of an argument names, which only a configuration or a
// running `mcpvisor run` knows. given are the arguments before it. It is called as needed.
type Names func(kind string, given []string) []Candidate

// scripts are those of the shells, by the ends of their names.
//
//go:embed script
var scripts embed.FS

// Script returns the script of a shell.
func Script(shell string) (string, error) {
	end := strings.Replace(strings.Replace(shell, "powershell", "ps1", 1), "pwsh", "ps1", 1)
	text, err := scripts.ReadFile("script/mcpvisor." + end)
	if err != nil {
		return "", fmt.Errorf("there is no completion for %q; name one of: bash, zsh, fish, powershell", shell)
	}
	return string(text), nil
}
