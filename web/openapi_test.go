package web

import (
	"bytes"
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// updateOpenAPI writes the schemas of openapi.json from the types:
//
//	go test ./web -run TestOpenAPI_schemas -update-openapi
var updateOpenAPI = flag.Bool("update-openapi", false, "write the schemas of openapi.json from the types of package api")

// answerTypes are the types that the paths of openapi.json name.
var answerTypes = []any{api.Status{}, api.Server{}, api.Tools{}, api.Stderr{}, api.ToolUse{}, api.Search{}, api.Calls{}, api.Usage{}, api.Clients{}, api.Nodes{}, api.Events{}, api.EventSummaries{}, api.Event{}, api.Hello{}, api.Missed{},
	api.CallRequest{}, api.CallAnswer{}, api.Tasks{}, api.AuthorizeRequest{}, api.AuthorizeAnswer{}, api.TaskRequest{}, api.CancelAnswer{}, api.Approvals{}, api.DecisionRequest{}, api.DecisionAnswer{}, api.RestartAnswer{}, api.Health{}, api.Readiness{}, api.ErrorAnswer{}}

// Every operation of the handler is in openapi.json, and the reverse.
func TestOpenAPI_has_every_operation(t *testing.T) {
	var file struct {
		Paths map[string]map[string]struct{ OperationID string }
	}
	require.NoError(t, json.Unmarshal(openAPI, &file))
	var described, served []string
	ids := map[string]bool{}
	for path, operations := range file.Paths {
		for method, operation := range operations {
			described = append(described, strings.ToUpper(method)+" "+path)
			require.NotEmpty(t, operation.OperationID)
			require.False(t, ids[operation.OperationID], operation.OperationID)
			ids[operation.OperationID] = true
		}
	}
	for _, r := range new(Handler).operations() {
		served = append(served, r.pattern)
	}
	require.ElementsMatch(t, served, described)
}

// The schemas of openapi.json are those of the types, field by field, with their comments.
func TestOpenAPI_schemas(t *testing.T) {
	var file map[string]any
	require.NoError(t, json.Unmarshal(openAPI, &file))
	m := schemaMaker{t: t, comments: comments(t), schemas: map[string]any{}}
	for _, v := range answerTypes {
		m.of(reflect.TypeOf(v))
	}
	// What the handler does not know it refuses.
	m.schemas["CallRequest"].(map[string]any)["additionalProperties"] = false
	components := file["components"].(map[string]any)
	want, err := json.MarshalIndent(m.schemas, "", "  ")
	require.NoError(t, err)
	if *updateOpenAPI {
		components["schemas"] = m.schemas
		var text strings.Builder
		e := json.NewEncoder(&text)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		require.NoError(t, e.Encode(file))
		require.NoError(t, os.WriteFile("openapi.json", []byte(text.String()), 0o644))
		return
	}
	got, err := json.MarshalIndent(components["schemas"], "", "  ")
	require.NoError(t, err)
	require.True(t, bytes.Equal(want, got), "the types have changed; run: go test ./web -run TestOpenAPI_schemas -update-openapi, and read the difference of openapi.json")
}

// schemaMaker makes JSON Schemas of the types that answers consist of.
type schemaMaker struct {
	t        *testing.T
	comments map[string]string // by "package.Type.Field"
	schemas  map[string]any    // of the structs, by name
}

var values = map[reflect.Type][]string{
	reflect.TypeFor[mcpvisor.ErrorKind]():  texts(mcpvisor.ErrorKinds()),
	reflect.TypeFor[mcpvisor.EventKind]():  texts(mcpvisor.EventKinds()),
	reflect.TypeFor[mcpvisor.Outcome]():    {"not_sent", "unknown", "answered"},
	reflect.TypeFor[supervisor.State]():    texts(supervisor.States()),
	reflect.TypeFor[supervisor.Strategy](): {"one_for_one", "rest_for_one", "one_for_all"},
}

func texts[T ~string](all []T) (list []string) {
	for _, v := range all {
		list = append(list, string(v))
	}
	slices.Sort(list) // some lists have no order
	return list
}

func (m *schemaMaker) of(t reflect.Type) map[string]any {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return map[string]any{"type": "string", "format": "date-time"}
	case t == reflect.TypeFor[time.Duration]():
		return map[string]any{"type": "integer", "description": "Nanoseconds."}
	case t == reflect.TypeFor[json.RawMessage]():
		return map[string]any{}
	case strings.Contains(t.PkgPath(), "modelcontextprotocol"):
		return map[string]any{"type": "object", "description": "A " + t.Name() + " of the Model Context Protocol, as the server sent it."}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return m.of(t.Elem())
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint64, reflect.Uint32:
		return map[string]any{"type": "integer"}
	case reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.String:
		s := map[string]any{"type": "string"}
		if known := values[t]; known != nil {
			s["examples"] = known
		}
		return s
	case reflect.Slice, reflect.Array:
		return map[string]any{"type": "array", "items": m.of(t.Elem())}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": m.of(t.Elem())}
	case reflect.Struct:
		if _, made := m.schemas[t.Name()]; !made {
			m.schemas[t.Name()] = nil // for a type that has itself
			m.schemas[t.Name()] = m.object(t)
		}
		return map[string]any{"$ref": "#/components/schemas/" + t.Name()}
	default:
		m.t.Fatalf("say in this test what JSON a %v is", t)
		return nil
	}
}

func (m *schemaMaker) object(t reflect.Type) map[string]any {
	properties, required := map[string]any{}, []string{}
	for _, field := range reflect.VisibleFields(t) {
		tag, hasTag := field.Tag.Lookup("json")
		name, options, _ := strings.Cut(tag, ",")
		if !field.IsExported() || field.Anonymous && !hasTag || name == "-" {
			continue // the fields of an embedded struct are visible themselves
		}
		require.NotEmpty(m.t, name, "%v.%s has no name in JSON", t, field.Name)
		s := m.of(field.Type)
		if text := m.comments[ownerOf(t, field)+"."+field.Name]; text != "" {
			s["description"] = text
		}
		// A value that may be null is either left out, or says so.
		optional := strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero")
		switch kind := field.Type.Kind(); {
		case optional:
		case kind == reflect.Pointer, kind == reflect.Slice, kind == reflect.Map:
			if s["$ref"] != nil {
				s = map[string]any{"anyOf": []any{s, map[string]any{"type": "null"}}}
			} else if s["type"] != nil {
				s["type"] = []any{s["type"], "null"}
			}
			required = append(required, name)
		default:
			required = append(required, name)
		}
		properties[name] = s
	}
	slices.Sort(required)
	o := map[string]any{"type": "object", "properties": properties, "required": required}
	if text := m.comments[t.PkgPath()+"."+t.Name()]; text != "" {
		o["description"] = text
	}
	return o
}

// ownerOf is the struct in which a visible field is declared.
func ownerOf(t reflect.Type, field reflect.StructField) string {
	for _, i := range field.Index[:len(field.Index)-1] {
		if t = t.Field(i).Type; t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
	}
	return t.PkgPath() + "." + t.Name()
}

var links = regexp.MustCompile(`\[([A-Za-z.]+)\]`)

// comments are those of the types and fields of the packages that answers come from.
func comments(t *testing.T) map[string]string {
	all := map[string]string{}
	add := func(name string, c *ast.CommentGroup) {
		if text := strings.Join(strings.Fields(c.Text()), " "); text != "" {
			all[name] = links.ReplaceAllString(text, "$1")
		}
	}
	const module = "github.com/mcpvisor/mcpvisor"
	for dir, path := range map[string]string{"api": module + "/web/api", "..": module, "../monitor": module + "/monitor", "../supervisor": module + "/supervisor"} {
		names, err := fs.Glob(os.DirFS(dir), "*.go")
		require.NoError(t, err)
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), dir+"/"+name, nil, parser.ParseComments)
			require.NoError(t, err)
			for _, decl := range file.Decls {
				g, _ := decl.(*ast.GenDecl)
				if g == nil || g.Tok != token.TYPE {
					continue
				}
				for _, spec := range g.Specs {
					s := spec.(*ast.TypeSpec)
					add(path+"."+s.Name.Name, g.Doc)
					object, _ := s.Type.(*ast.StructType)
					if object == nil {
						continue
					}
					for _, field := range object.Fields.List {
						for _, n := range field.Names {
							add(path+"."+s.Name.Name+"."+n.Name, field.Doc)
						}
					}
				}
			}
		}
	}
	require.NotEmpty(t, maps.Keys(all))
	return all
}
