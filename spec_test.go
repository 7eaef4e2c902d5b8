package mcpvisor

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mcpvisor/mcpvisor/internal/defaults"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

const canary = "canary-7f3a"

func serve(context.Context, io.ReadCloser, io.WriteCloser, io.Writer) error { return nil }

func newTransport(context.Context) (mcp.Transport, error) { return nil, nil }

func TestServerSpec_Validate_valid(t *testing.T) {
	for name, s := range map[string]ServerSpec{
		"stdio":    {Stdio: &Stdio{Command: "npx", Args: []string{"-y", ""}, Env: map[string]string{"A": "", "B_1": "x=y\nz"}}},
		"auth":     {HTTP: &HTTP{URL: "https://h/mcp", Auth: &testAuth{}}},
		"http":     {HTTP: &HTTP{URL: "https://user:pw@host:8443/mcp?x=1", Headers: map[string]string{"Authorization": "Bearer x", "X-Y_z": "\tü"}}},
		"memory":   {InMemory: &InMemory{Serve: serve}},
		"custom":   {Transport: &Transport{New: newTransport}},
		"unbound":  {InMemory: &InMemory{Serve: serve}, Timeouts: Timeouts{Call: -1, Start: -1, List: -1}},
		"era":      {InMemory: &InMemory{Serve: serve}, Era: EraModern},
		"no queue": {InMemory: &InMemory{Serve: serve}, Limits: Limits{MaxQueued: -1, MaxMessageBytes: maxMessageBytes}},
		"no probe": {InMemory: &InMemory{Serve: serve}, Probe: Probe{Interval: -1}},
		"retry":    {InMemory: &InMemory{Serve: serve}, Policy: supervisor.Policy{MaxAttempts: 3, Base: time.Second}},
		"defaults": ServerSpec{InMemory: &InMemory{Serve: serve}}.WithDefaults(),
	} {
		s.Name = "fs"
		require.NoError(t, s.Validate(), name)
	}
}

// Each message says which part is wrong, what is wrong, and how to correct it.
func TestServerSpec_Validate_invalid(t *testing.T) {
	memory, program := &InMemory{Serve: serve}, func(s Stdio) ServerSpec { return ServerSpec{Stdio: &s} }
	web := func(h HTTP) ServerSpec { return ServerSpec{HTTP: &h} }
	header := func(name, value string) ServerSpec {
		return web(HTTP{URL: "http://h", Headers: map[string]string{name: value}})
	}
	for name, c := range map[string]struct {
		spec             ServerSpec
		where, what, how string
	}{
		"nothing":              {ServerSpec{}, "no transport", "", "set one of"},
		"two":                  {ServerSpec{Stdio: &Stdio{Command: "x"}, InMemory: memory}, "2 transports", "", "only one"},
		"three":                {ServerSpec{Stdio: &Stdio{Command: "x"}, InMemory: memory, HTTP: &HTTP{URL: "http://h"}}, "3 transports", "", "only one"},
		"no function":          {ServerSpec{InMemory: &InMemory{}}, "in-memory", "Serve is nil", "set the function"},
		"custom and memory":    {ServerSpec{Transport: &Transport{New: newTransport}, InMemory: memory}, "2 transports", "", "only one"},
		"no transport":         {ServerSpec{Transport: &Transport{}}, "custom transport", "Transport.New is nil", "set the function"},
		"credentials, headers": {web(HTTP{URL: "http://h", Auth: &testAuth{}, Headers: map[string]string{"authorization": "x"}}), "auth", "an Authorization header is set as well", "remove one"},
		"credentials, user":    {web(HTTP{URL: "http://u@h", Auth: &testAuth{}}), "auth", "a user in the URL", "remove one"},
		"credentials":          {web(HTTP{URL: "http://h", Auth: &testAuth{err: errors.New("signer: no key; set it")}}), "signer", "no key", "set it"},
		"standby of a remote":  {ServerSpec{HTTP: &HTTP{URL: "http://h"}, Standby: true, Policy: supervisor.Retry(1, 0)}, "standby", "no process", "remove ServerSpec.Standby"},
		"standby, no retry":    {ServerSpec{InMemory: memory, Standby: true}, "standby", "MaxAttempts is 0", "set ServerSpec.Policy"},
		"standby, parked":      {ServerSpec{InMemory: memory, Standby: true, Policy: supervisor.Policy{ParkEvery: time.Minute}}, "standby", "MaxAttempts is 0", "set ServerSpec.Policy"},
		"endless shutdown":     {ServerSpec{InMemory: memory, Timeouts: Timeouts{Shutdown: -1}}, "timeouts", "Shutdown is negative", "set a positive bound"},
		"endless drain":        {ServerSpec{InMemory: memory, Timeouts: Timeouts{Drain: -1}}, "timeouts", "Drain is negative", "set a positive bound"},
		"exclusive overlap":    {ServerSpec{InMemory: memory, Overlap: true, Exclusive: true}, "overlap", "exclusive", "remove ServerSpec.Overlap"},
		"no command":           {program(Stdio{Command: " \t"}), "stdio", "Stdio.Command is empty", "name the program"},
		"NUL in command":       {program(Stdio{Command: "a\x00"}), "stdio", "NUL", "remove"},
		"NUL in argument":      {program(Stdio{Command: "a", Args: []string{"b", "\x00"}}), "stdio", "argument", "remove"},
		"NUL in directory":     {program(Stdio{Command: "a", Dir: "\x00"}), "stdio", "directory", "remove"},
		"empty variable":       {program(Stdio{Command: "a", Env: map[string]string{"": canary}}), "stdio", `variable name ""`, "must not"},
		"odd variable":         {program(Stdio{Command: "a", Env: map[string]string{"A=B": canary}}), "stdio", `"A=B"`, "must not"},
		"NUL in variable":      {program(Stdio{Command: "a", Env: map[string]string{"A": canary + "\x00"}}), "stdio", `"A"`, "remove"},
		"no URL":               {web(HTTP{}), "http", "URL", "must begin with"},
		"URL of a file":        {web(HTTP{URL: "file:///etc/" + canary}), "http", "URL", "must begin with"},
		"URL without host":     {web(HTTP{URL: "https:///" + canary}), "http", "URL", "name a host"},
		"URL in pieces":        {web(HTTP{URL: "http://u:" + canary + "@h:port"}), "http", "cannot be parsed", "write it as"},
		"empty header":         {header("", canary), "http", `header ""`, "names hold"},
		"spaced header":        {header("A B", canary), "http", `"A B"`, "names hold"},
		"colon in header":      {header("A:", canary), "http", `"A:"`, "names hold"},
		"tab in header":        {header("A\t", canary), "http", `"A\t"`, "names hold"},
		"foreign header":       {header("Ä", canary), "http", `"Ä"`, "names hold"},
		"break in value":       {header("A", canary+"\r\nB: c"), "http", `"A"`, "line breaks"},
		"delete in value":      {header("A", canary+"\x7f"), "http", `"A"`, "control"},
		"NUL in name":          {program(Stdio{Command: "a", Env: map[string]string{"A\x00": canary}}), "stdio", `"A\x00"`, "must not be empty"},
		"control in value":     {header("A", canary+"\x1b"), "http", `"A"`, "control"},
		"unknown era":          {ServerSpec{InMemory: memory, Era: "2025"}, "era", `"2025"`, "use "},
		"negative limit":       {ServerSpec{InMemory: memory, Limits: Limits{MaxItems: -1}}, "limits", "MaxItems is -1", "leave it 0"},
		"no calls":             {ServerSpec{InMemory: memory, Limits: Limits{MaxInFlight: -1}}, "limits", "MaxInFlight is -1", "leave it 0"},
		"long messages":        {ServerSpec{InMemory: memory, Limits: Limits{MaxMessageBytes: maxMessageBytes + 1}}, "limits", "MaxMessageBytes is 1073741825", "at most 1073741824"},
		"probe without end":    {ServerSpec{InMemory: memory, Probe: Probe{Timeout: -1}}, "probe", "Timeout is -1ns", "leave it 0"},
		"probe that passes":    {ServerSpec{InMemory: memory, Probe: Probe{Failures: -1}}, "probe", "Failures is -1", "leave it 0"},
		"no bound":             {ServerSpec{InMemory: memory, Timeouts: Timeouts{Call: -1, CallTotal: -1}}, "timeouts", "CallTotal", "bound one"},
		"retry":                {ServerSpec{InMemory: memory, Policy: supervisor.Policy{Base: -1}}, "retry policy", "Base", "cannot be negative"},
	} {
		t.Run(name, func(t *testing.T) {
			c.spec.Name = "fs"
			err := c.spec.Validate()
			require.Error(t, err)
			require.True(t, strings.HasPrefix(err.Error(), c.where), err.Error())
			require.Contains(t, err.Error(), c.what)
			require.Contains(t, err.Error(), c.how)
			require.NotContains(t, err.Error(), "\n", "one problem")
			require.NotContains(t, err.Error(), canary, "values are secrets")
		})
	}
}

// Validate reports all problems at once.
func TestServerSpec_Validate_reports_everything(t *testing.T) {
	err := ServerSpec{Name: "a b", Era: "x", Timeouts: Timeouts{Call: -1, CallTotal: -1}, Policy: supervisor.Policy{Jitter: 2},
		Stdio: &Stdio{Args: []string{"\x00"}, Env: map[string]string{"=": "", "": ""}},
		HTTP:  &HTTP{URL: "x", Headers: map[string]string{" ": ""}}, InMemory: &InMemory{}}.Validate()
	require.Error(t, err)
	require.Len(t, strings.Split(err.Error(), "\n"), 12)
}

func TestServerSpec_WithDefaults(t *testing.T) {
	s := ServerSpec{}.WithDefaults()
	require.Equal(t, Timeouts{Start: time.Minute, Negotiate: 3 * time.Second, List: 30 * time.Second, Call: time.Minute,
		CallTotal: 10 * time.Minute, Shutdown: 2 * time.Second, Drain: 30 * time.Second}, s.Timeouts)
	require.Equal(t, Limits{MaxMessageBytes: 64 << 20, MaxBufferBytes: 64 << 20, MaxElements: 1_000_000, MaxDecodedBytes: 256 << 20, MaxItems: 10_000, MaxPages: 1_000, MaxCatalogBytes: 256 << 20, MaxInFlight: 1_024, MaxQueued: 1_024, MaxStderrLines: 30}, s.Limits)
	require.Equal(t, Probe{Interval: 30 * time.Second, Timeout: 10 * time.Second, Failures: 3}, s.Probe)

	off := Timeouts{Start: -1, Negotiate: -1, List: -1, Call: -1, CallTotal: -1, Shutdown: time.Second, Drain: time.Second}
	require.Equal(t, off, ServerSpec{Timeouts: off}.WithDefaults().Timeouts, "negative means no bound")
	require.Negative(t, ServerSpec{Probe: Probe{Interval: -1}}.WithDefaults().Probe.Interval, "negative means no probes")
}

// WithDefaults keeps what is set, sets what is zero, is idempotent, and leaves the
// original unchanged.
func TestServerSpec_WithDefaults_properties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		clock := rapid.OneOf(rapid.Just(time.Duration(0)), rapid.Map(rapid.Int64(), func(n int64) time.Duration { return time.Duration(n) }))
		count := rapid.OneOf(rapid.Just(0), rapid.IntRange(1, maxMessageBytes))
		clocks := rapid.SliceOfN(clock, 9, 9).Draw(t, "clocks")
		counts := rapid.SliceOfN(count, 6, 6).Draw(t, "counts")
		s := ServerSpec{Name: "fs", Stdio: &Stdio{Command: "x"}, Policy: supervisor.Policy{MaxAttempts: 2}}
		fields := func(s *ServerSpec) ([]*time.Duration, []*int) {
			return []*time.Duration{&s.Timeouts.Start, &s.Timeouts.Negotiate, &s.Timeouts.List, &s.Timeouts.Call,
					&s.Timeouts.CallTotal, &s.Timeouts.Shutdown, &s.Timeouts.Drain, &s.Probe.Interval, &s.Probe.Timeout},
				[]*int{&s.Limits.MaxMessageBytes, &s.Limits.MaxItems, &s.Limits.MaxPages, &s.Limits.MaxInFlight, &s.Limits.MaxStderrLines, &s.Probe.Failures}
		}
		durations, ints := fields(&s)
		for i, d := range durations {
			*d = clocks[i]
		}
		for i, n := range ints {
			*n = counts[i]
		}
		before := s
		full := s.WithDefaults()
		require.Equal(t, before, s)
		require.Equal(t, full, full.WithDefaults())
		durations, ints = fields(&full)
		for i, d := range durations {
			require.NotZero(t, *d)
			require.True(t, clocks[i] == 0 || clocks[i] == *d)
		}
		for i, n := range ints {
			require.Positive(t, *n)
			require.True(t, counts[i] == 0 || counts[i] == *n)
		}
		require.Equal(t, []any{s.Name, s.Stdio, s.Policy}, []any{full.Name, full.Stdio, full.Policy})
	})
}

func TestServerSpec_Target_holds_no_secrets(t *testing.T) {
	for _, c := range []struct {
		spec         ServerSpec
		kind, target string
	}{
		{ServerSpec{}, "", ""},
		{ServerSpec{Stdio: &Stdio{Command: "npx", Args: []string{"--key", canary}, Env: map[string]string{"KEY": canary}}}, "stdio", "npx"},
		{ServerSpec{Stdio: &Stdio{Command: "npx", Args: []string{"-y", "@scope/server@1", "--key", canary}}}, "stdio", "npx @scope/server@1"},
		{ServerSpec{Stdio: &Stdio{Command: "node", Args: []string{"/opt/weather/dist/index.js", canary}}}, "stdio", "node weather/dist/index.js"},
		{ServerSpec{HTTP: &HTTP{URL: "https://u:" + canary + "@host:8443/mcp?key=" + canary + "#" + canary,
			Headers: map[string]string{"Authorization": canary}}}, "http", "https://host:8443/mcp"},
		{ServerSpec{HTTP: &HTTP{URL: "http://h/%zz" + canary}}, "http", "(unreadable URL)"},
		{ServerSpec{InMemory: &InMemory{}}, "memory", "(in this process)"},
		{ServerSpec{Transport: &Transport{}}, "custom", "(custom transport)"},
		{ServerSpec{Transport: &Transport{Kind: "ssh", Target: "host"}}, "ssh", "host"},
	} {
		require.Equal(t, c.kind, c.spec.TransportKind())
		require.Equal(t, c.target, c.spec.Target())
	}
}

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
	case map[string]ToolSetting: // TestToolSettings_arguments of facade changes an argument
		v.Set(reflect.ValueOf(map[string]ToolSetting{"a": {Name: strings.Repeat("x", before.Len()), Fixed: map[string]json.RawMessage{"b": json.RawMessage("1")}}}))
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

func TestLimits_MaxMessageBytes_is_clamped(t *testing.T) {
	for given, want := range map[int]int{
		0: defaults.MaxMessageBytes, -1: defaults.MaxMessageBytes, math.MinInt: defaults.MaxMessageBytes,
		1: 1, maxMessageBytes: maxMessageBytes, maxMessageBytes + 1: maxMessageBytes, math.MaxInt: maxMessageBytes,
	} {
		require.Equal(t, want, ServerSpec{Limits: Limits{MaxMessageBytes: given}}.WithDefaults().Limits.MaxMessageBytes, given)
	}
}

func TestToolFilter(t *testing.T) {
	for _, c := range []struct {
		allow, deny, offered, hidden string // words
	}{
		{"", "", "read_file any/thing", ""},
		{"read_file list", "", "read_file list", "read_files Read_file x"},
		{"read_*", "", "read_ read_file read_a/b", "read xread_file"},
		{"*_file", "", "read_file _file", "read_files"},
		{"a*b*c", "", "abc aXbYc abbcc abcbc", "ab ac abcd"},
		{"?", "", "a é", "ab"},
		{"", "rm*", "list", "rm rmdir"},
		{"*", "rm*", "list", "rm rmdir"},
		{"rm", "rm", "", "rm list"},
		{"[a]", "", "[a]", "a"},
		{"**", "", "anything", ""},
	} {
		f := ToolFilter{Allow: strings.Fields(c.allow), Deny: strings.Fields(c.deny)}
		for _, name := range strings.Fields(c.offered) {
			require.True(t, f.Allows(name), "%+v %s", f, name)
		}
		for _, name := range strings.Fields(c.hidden) {
			require.False(t, f.Allows(name), "%+v %s", f, name)
		}
	}
	require.True(t, ToolFilter{}.IsZero())
	require.False(t, ToolFilter{Deny: []string{"x"}}.IsZero())
}

// A pattern with many stars does not lead to exponential backtracking, with which this test would
// not end.
func TestToolFilter_cost_of_many_stars(t *testing.T) {
	f := ToolFilter{Allow: []string{strings.Repeat("*a", 500) + "b"}}
	require.False(t, f.Allows(strings.Repeat("a", 2000)))
}

// Settings of tools that cannot work are errors.
func TestToolSettings_Validate(t *testing.T) {
	arguments := func(name, value string) map[string]json.RawMessage {
		return map[string]json.RawMessage{name: json.RawMessage(value)}
	}
	for says, settings := range map[string]map[string]ToolSetting{
		`"a" and "b" are both called "x"`:      {"a": {Name: "x"}, "b": {Name: "x"}},
		`"a" and "b" are both called "b"`:      {"a": {Name: "b"}, "b": {Description: "y"}},
		`the name "a/b" of tool "a" is not`:    {"a": {Name: "a/b"}},
		`of tool "long" is not one`:            {"long": {Name: strings.Repeat("x", 129)}},
		`the name of a tool is empty`:          {"": {Description: "y"}},
		`"n" of tool "a" is not JSON`:          {"a": {Fixed: arguments("n", "{")}},
		`"N" of tool "a" is fixed, so it has`:  {"a": {Fixed: arguments("n", "1"), Defaults: arguments("N", "2")}},
		`the timeout of tool "a" is negative`:  {"a": {Timeout: -1}},
		`"pattern" is called "x", so the patt`: {"pattern": {Name: "x"}},
	} {
		spec := ServerSpec{Name: "s", Stdio: &Stdio{Command: "x"}, ToolSettings: settings, Tools: ToolFilter{Deny: []string{"pattern"}}}
		require.ErrorContains(t, spec.Validate(), says)
	}
	swapped := map[string]ToolSetting{"a": {Name: "b"}, "b": {Name: "a"}}
	require.NoError(t, ServerSpec{Name: "s", Stdio: &Stdio{Command: "x"}, ToolSettings: swapped, Tools: ToolFilter{Allow: []string{"a"}}}.Validate())
}
