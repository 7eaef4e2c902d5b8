package mcpvisor

import (
	"context"
	"io"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
)

// testAuth is an Auth. Two of them are equal if their texts are.
type testAuth struct {
	Auth
	text string
	err  error
}

func (a *testAuth) Validate() error { return a.err }

func (a *testAuth) Equal(other Auth) bool { b, ok := other.(*testAuth); return ok && a.text == b.text }

// another returns a value of the same type that differs from before. It fails for a type that it does not know, so that a new field of a
// spec is not left out.
func another(t *testing.T, before reflect.Value) reflect.Value {
	t.Helper()
	n := time.Now().UnixNano()
	v := reflect.New(before.Type()).Elem()
	switch before.Interface().(type) {
	case func(context.Context, io.ReadCloser, io.WriteCloser, io.Writer) error:
		v.Set(reflect.ValueOf(func(context.Context, io.ReadCloser, io.WriteCloser, io.Writer) error { _ = n; return nil }))
	case func(context.Context) (mcp.Transport, error):
		v.Set(reflect.ValueOf(func(context.Context) (mcp.Transport, error) { n++; return nil, nil }))
	case func(context.Context) (map[string]string, error):
		v.Set(reflect.ValueOf(func(context.Context) (map[string]string, error) { n++; return nil, nil }))
	case *http.Client:
		v.Set(reflect.ValueOf(&http.Client{}))
	case map[string]string:
		v.Set(reflect.ValueOf(map[string]string{"A": strings.Repeat("x", before.Len())}))
	default:
		switch before.Kind() {
		case reflect.String:
			v.SetString(before.String() + "x")
		case reflect.Bool:
			v.SetBool(!before.Bool())
		case reflect.Int, reflect.Int64:
			v.SetInt(before.Int() + 7)
		case reflect.Float64:
			v.SetFloat(before.Float() + 0.25)
		case reflect.Slice:
			v.Set(reflect.Append(before, another(t, reflect.New(before.Type().Elem()).Elem())))
		case reflect.Interface:
			v.Set(reflect.ValueOf(&testAuth{text: strconv.FormatInt(n, 10)}))
		default:
			t.Fatalf("say in this test how a %v is changed, and in Equal how it is compared", before.Type())
		}
	}
	return v
}

// leaves calls f for each field of v that is no struct of this package or package
// supervisor, with its path. It makes the pointers to such structs.
func leaves(v reflect.Value, path string, f func(path string, v reflect.Value)) {
	own := func(t reflect.Type) bool {
		return t.Kind() == reflect.Struct && t.PkgPath() != reflect.TypeFor[http.Client]().PkgPath()
	}
	switch {
	case v.Kind() == reflect.Pointer && own(v.Type().Elem()):
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		leaves(v.Elem(), path, f)
	case own(v.Type()):
		for i := range v.NumField() {
			leaves(v.Field(i), path+"."+v.Type().Field(i).Name, f)
		}
	default:
		f(path, v)
	}
}

// fullSpec is a spec in which every field is set, except functions.
func fullSpec(t *testing.T) ServerSpec {
	t.Helper()
	var s ServerSpec
	leaves(reflect.ValueOf(&s).Elem(), "", func(_ string, v reflect.Value) {
		if v.Kind() != reflect.Func {
			v.Set(another(t, v))
		}
	})
	return s
}

// deepCopy is a copy that shares no struct of this package.
func deepCopy(s ServerSpec) ServerSpec {
	s = s.Clone()
	inMemory, transport, remote := *s.InMemory, *s.Transport, *s.HTTP
	remote.Auth = &testAuth{text: remote.Auth.(*testAuth).text}
	s.InMemory, s.Transport, s.HTTP = &inMemory, &transport, &remote
	return s
}

func TestServerSpec_Equal_considers_every_field(t *testing.T) {
	full := fullSpec(t)
	var paths []string
	leaves(reflect.ValueOf(&full).Elem(), "", func(path string, _ reflect.Value) { paths = append(paths, path) })
	require.Greater(t, len(paths), 50)
	functions := 0
	for _, path := range paths {
		changed := deepCopy(full)
		require.True(t, full.Equal(changed), "a copy is equal")
		leaves(reflect.ValueOf(&changed).Elem(), "", func(p string, v reflect.Value) {
			if p == path {
				v.Set(another(t, v))
				if v.Kind() == reflect.Func {
					functions++
					require.True(t, changed.Equal(changed.Clone()), "%s: a clone shares the struct with the function", path)
					require.False(t, changed.Equal(deepCopy(changed)), "%s: functions cannot be compared", path)
				}
			}
		})
		require.Equal(t, path == ".Origin", full.Equal(changed), path)
		require.Equal(t, path == ".Origin", changed.Equal(full), path)
	}
	require.Equal(t, 3, functions)
}

func TestServerSpec_Equal(t *testing.T) {
	one := &InMemory{Serve: func(context.Context, io.ReadCloser, io.WriteCloser, io.Writer) error { return nil }}
	spec := func(set func(*ServerSpec)) ServerSpec {
		s := ServerSpec{Name: "s"}
		set(&s)
		return s
	}
	auth := func(a Auth) ServerSpec {
		return spec(func(s *ServerSpec) { s.HTTP = &HTTP{URL: "https://h", Auth: a} })
	}
	for name, test := range map[string]struct {
		a, b  ServerSpec
		equal bool
	}{
		"zero":                    {equal: true},
		"no_transport_and_one":    {a: ServerSpec{Name: "s"}, b: spec(func(s *ServerSpec) { s.Stdio = &Stdio{} })},
		"default_and_written_out": {a: ServerSpec{Name: "s"}, b: ServerSpec{Name: "s"}.WithDefaults(), equal: true},
		"nil_and_empty":           {a: spec(func(s *ServerSpec) { s.Stdio = &Stdio{} }), b: spec(func(s *ServerSpec) { s.Stdio = &Stdio{Args: []string{}, Env: map[string]string{}} }), equal: true},
		"order_of_arguments":      {a: spec(func(s *ServerSpec) { s.Stdio = &Stdio{Args: []string{"a", "b"}} }), b: spec(func(s *ServerSpec) { s.Stdio = &Stdio{Args: []string{"b", "a"}} })},
		"another_name_in_env":     {a: spec(func(s *ServerSpec) { s.Stdio = &Stdio{Env: map[string]string{"A": ""}} }), b: spec(func(s *ServerSpec) { s.Stdio = &Stdio{Env: map[string]string{"B": ""}} })},
		"one_struct":              {a: spec(func(s *ServerSpec) { s.InMemory = one }), b: spec(func(s *ServerSpec) { s.InMemory = one }), equal: true},
		"one_function_twice":      {a: spec(func(s *ServerSpec) { s.InMemory = one }), b: spec(func(s *ServerSpec) { s.InMemory = &InMemory{Serve: one.Serve} })},
		"function_and_nil":        {a: spec(func(s *ServerSpec) { s.InMemory = one }), b: spec(func(s *ServerSpec) { s.InMemory = &InMemory{} })},
		"auth_and_none":           {a: auth(&testAuth{}), b: auth(nil)},
		"equal_auth":              {a: auth(&testAuth{text: "a"}), b: auth(&testAuth{text: "a"}), equal: true},
		"another_auth":            {a: auth(&testAuth{text: "a"}), b: auth(&testAuth{text: "b"})},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, test.equal, test.a.Equal(test.b))
			require.Equal(t, test.equal, test.b.Equal(test.a))
		})
	}
}
