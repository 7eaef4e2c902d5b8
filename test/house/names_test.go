package house

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// goNames are the names that the code of this repository declares, without its tests.
type goNames struct {
	packages map[string]map[string]bool // top-level names, by the name of the package
	members  map[string]map[string]bool // fields and methods, by the name of the type
	fields   map[string]map[string]bool // names of the types of fields, by the name of the field
	embeds   map[string]bool            // types with members of others
	exported map[string]bool            // all exported names, members too
	strings  map[string]bool            // texts of string literals
}

// declaredNames reads the names of all packages.
func declaredNames(t *testing.T) *goNames {
	n := &goNames{map[string]map[string]bool{}, map[string]map[string]bool{}, map[string]map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}}
	for _, s := range sources(t) {
		if !s.isGo() || s.isTest() {
			continue
		}
		file := s.parse(t)
		n.addFile(file)
		eachToken(s, func(_ int, tok token.Token, text string) {
			if value, err := strconv.Unquote(text); tok == token.STRING && err == nil {
				n.strings[value] = true
			}
		})
	}
	return n
}

func (n *goNames) add(of map[string]map[string]bool, owner, name string) {
	if of[owner] == nil {
		of[owner] = map[string]bool{}
	}
	of[owner][name] = true
	if ast.IsExported(name) {
		n.exported[name] = true
	}
}

func (n *goNames) addFile(file *ast.File) {
	for _, decl := range file.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok {
			if f.Recv == nil {
				n.add(n.packages, file.Name.Name, f.Name.Name)
			} else {
				n.add(n.members, receiver(f.Recv.List[0].Type), f.Name.Name)
			}
			continue
		}
		for _, spec := range decl.(*ast.GenDecl).Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				n.add(n.packages, file.Name.Name, spec.Name.Name)
				n.addMembers(spec)
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					n.add(n.packages, file.Name.Name, name.Name)
				}
			}
		}
	}
}

func (n *goNames) addMembers(spec *ast.TypeSpec) {
	var fields *ast.FieldList
	switch typ := spec.Type.(type) {
	case *ast.StructType:
		fields = typ.Fields
	case *ast.InterfaceType:
		fields = typ.Methods
	default:
		n.embeds[spec.Name.Name] = true // an alias, or a type of a type
		return
	}
	for _, field := range fields.List {
		for _, name := range field.Names {
			n.add(n.members, spec.Name.Name, name.Name)
			ast.Inspect(field.Type, func(node ast.Node) bool {
				switch typ := node.(type) {
				case *ast.SelectorExpr: // without the package
					n.add(n.fields, name.Name, typ.Sel.Name)
					return false
				case *ast.Ident:
					n.add(n.fields, name.Name, typ.Name)
				}
				return true
			})
		}
		if len(field.Names) == 0 {
			n.embeds[spec.Name.Name] = true
		}
	}
}

// foreign are names of other modules, in packages whose names we use, too.
var foreign = map[string]bool{"jsonrpc.Error": true, "transport.Transport": true}

// missing returns the part of a dotted name that no declaration has, or "". What begins with
// none of our packages and types is not ours to judge.
func (n *goNames) missing(name string) string {
	parts := strings.Split(name, ".")
	if top := n.packages[parts[0]]; len(parts) > 1 && top != nil && ast.IsExported(parts[1]) {
		if foreign[parts[0]+"."+parts[1]] {
			return ""
		}
		if !top[parts[1]] {
			return parts[0] + "." + parts[1]
		}
		parts = parts[1:]
	}
	if len(parts) > 1 && ast.IsExported(parts[0]) && ast.IsExported(parts[1]) && !n.hasMember(parts[0], parts[1]) {
		return parts[0] + "." + parts[1]
	}
	return ""
}

// hasMember reports whether a type of a name, or that of a field of the name, has a member.
// It is true for a name that we do not declare.
func (n *goNames) hasMember(owner, member string) bool {
	known := n.members[owner] != nil
	if n.members[owner][member] || n.embeds[owner] {
		return true
	}
	for typ := range n.fields[owner] {
		if n.members[typ][member] || n.embeds[typ] {
			return true
		}
		known = known || n.members[typ] != nil
	}
	return !known
}

var (
	codeSpan   = regexp.MustCompile("`([^`\n]+)`")
	codeBlock  = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	dottedName = regexp.MustCompile(`[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+`)
	// ourNames are bare names that only this module has.
	ourNames = regexp.MustCompile(`(?:^|[^.\w])((?:With|Err|Event|Kind|Outcome|State|Cause|Era)[A-Z]\w*)`)
	// methodName is a method of MCP.
	methodName = regexp.MustCompile(`^(?:tools|resources|prompts|completion|logging|sampling|elicitation|roots|notifications|subscriptions|server|tasks)(?:/\w+)+$`)
)

// TestPagesNameWhatExists: a Go name or a method of MCP in a code span of any page exists.
func TestPagesNameWhatExists(t *testing.T) {
	t.Parallel()
	n := declaredNames(t)
	checked := 0
	var missing []string
	check := func(exists bool, page, span, name string) {
		if checked++; !exists {
			missing = append(missing, page+": `"+span+"` has "+name)
		}
	}
	for _, s := range sources(t) {
		if filepath.Ext(s.path) != ".md" {
			continue
		}
		text := codeBlock.ReplaceAllString(string(s.text), "")
		for line := range strings.Lines(text) {
			if s.path == "CHANGELOG.md" { // the other columns have names that are no more
				if cells := strings.Split(line, "|"); len(cells) > 2 {
					line = cells[len(cells)-2]
				}
			}
			for _, span := range codeSpan.FindAllStringSubmatch(line, -1) {
				for _, name := range dottedName.FindAllString(span[1], -1) {
					unknown := n.missing(name)
					check(unknown == "", s.path, span[1], unknown)
				}
				for _, name := range ourNames.FindAllStringSubmatch(span[1], -1) {
					check(n.exported[name[1]], s.path, span[1], name[1])
				}
				if methodName.MatchString(span[1]) && span[1] != "server/tool" { // the form of a qualified name
					_, err := os.Stat(filepath.Join(root, filepath.FromSlash(span[1])))
					check(n.strings[span[1]] || err == nil, s.path, span[1], "a method that no code has")
				}
			}
		}
	}
	require.Empty(t, missing, "names that nothing declares")
	require.Greater(t, checked, 500, "names that were checked")
}

// TestProtocolNamesWhatExists: the last column of the table of docs/protocol.md has only names
// of packages facade and mcpvisor, methods of Client, and members of types.
func TestProtocolNamesWhatExists(t *testing.T) {
	n := declaredNames(t)
	page, err := os.ReadFile(filepath.Join(root, "docs", "protocol.md"))
	require.NoError(t, err)
	checked := 0
	var missing []string
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) < 8 {
			continue
		}
		for _, span := range quotedParts(cells[len(cells)-2]) {
			checked++
			known := ast.IsExported(span) && (n.packages["facade"][span] || n.packages["mcpvisor"][span] || n.members["Client"][span])
			if strings.Contains(span, ".") {
				owner, _, _ := strings.Cut(span, ".")
				known = n.missing(span) == "" && (n.members[owner] != nil || n.packages[owner] != nil)
			}
			if !known && span != "telemetry" {
				missing = append(missing, span)
			}
		}
	}
	require.Empty(t, missing, "names of docs/protocol.md that the public API does not have")
	require.Greater(t, checked, 30, "names that were checked")
}

func TestNames_missing(t *testing.T) {
	n := declaredNames(t)
	for name, want := range map[string]string{"facade.Client": "", "facade.Client.CallTool": "", "Client.CallTool": "", "mcpvisor.ServerSpec.HTTP": "",
		"ServerSpec.HTTP.URL": "", "json.RawMessage": "", "mcpvisor.schema.json": "", "facade.WithBuffer": "facade.WithBuffer", "Client.Call": "Client.Call",
		"facade.Client.Read": "Client.Read", "mcpvisor.Nothing": "mcpvisor.Nothing", "Limits.Buffer": "Limits.Buffer", "ServerSpec.Retry": "ServerSpec.Retry",
		"Tools.Allow": "", "Session.ProtocolVersion": "", "Session.Abandoned": "Session.Abandoned"} {
		require.Equal(t, want, n.missing(name), name)
	}
}
