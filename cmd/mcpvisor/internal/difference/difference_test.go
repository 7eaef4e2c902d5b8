package difference

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/headerauth"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

func TestOf(t *testing.T) {
	before := mcpvisor.ServerSpec{Name: "erp", Origin: "a:1", Policy: mcpvisor.Retry(5, time.Second), After: []string{"db"}, Secrets: []string{"1234", "old-secret-text"},
		Stdio: &mcpvisor.Stdio{Command: "node", Args: []string{"erp.js", "big500", "--token", "abc", "1234", "last"}, Env: map[string]string{"TOKEN": "a-token-of-before", "A": "1"}}}
	after := before.Clone()
	require.Empty(t, Of(before, after))
	after.Origin = "a:2"
	after.Timeouts.Start = 60 * time.Second // the default
	require.Empty(t, Of(before, after), "that is no difference")
	require.True(t, before.Equal(after))

	after.Stdio.Args[1], after.Stdio.Args[3], after.Stdio.Args[4] = "big400", "xyz", "5678"
	after.Stdio.Args = after.Stdio.Args[:5]
	after.Stdio.Env = map[string]string{"TOKEN": "a-token-of-later", "B": "2"}
	after.Timeouts.Call, after.Policy.MaxAttempts, after.Standby = 3*time.Minute, supervisor.Unlimited, true
	after.After, after.Tools.Deny = []string{"cache"}, []string{"drop_*"}
	after.ToolSettings = map[string]mcpvisor.ToolSetting{"send": {Timeout: time.Minute}}
	require.Equal(t, []string{"args[1] big500 → big400", "args[3] changed", "args[4] changed", "env.B added", "env.TOKEN changed",
		"retry.max_attempts 5 → -1", "standby true added", "after cache added", "tools.deny drop_* added", "tools.send added", "timeouts.call 3m added", "args[5] removed", "and 2 more"}, Of(before, after))
	require.Equal(t, []string{"timeouts.call removed"}, Of(mcpvisor.ServerSpec{Timeouts: after.Timeouts}, mcpvisor.ServerSpec{}))
	after.Policy, after.Standby, after.After, after.Tools, after.Stdio = before.Policy, false, before.After, before.Tools, before.Stdio
	require.Equal(t, []string{"tools.send added", "timeouts.call 3m added"}, Of(before, after))
}

// A server that is reached in another way has the keys of both, and no secret of an address.
func TestOf_transport(t *testing.T) {
	program := mcpvisor.ServerSpec{Name: "erp", Stdio: &mcpvisor.Stdio{Command: "erp"}}
	remote := mcpvisor.ServerSpec{Name: "erp", HTTP: &mcpvisor.HTTP{URL: "https://me:pw@erp.example/mcp?key=k1", Headers: map[string]string{"Authorization": "Bearer x"}}}
	require.Equal(t, []string{"url https://erp.example/mcp added", "headers.Authorization added", "command removed"}, Of(program, remote))
	moved := remote.Clone()
	moved.HTTP.URL = "https://me:pw@erp.example/mcp?key=k2"
	moved.HTTP.Auth = &headerauth.Source{Command: []string{"token"}}
	require.Equal(t, []string{"url changed", "auth added"}, Of(remote, moved))
	text := strings.Join(Of(moved, remote), " ")
	require.NotContains(t, text, "k1")
	custom := func() mcpvisor.ServerSpec {
		return mcpvisor.ServerSpec{Name: "erp", Transport: &mcpvisor.Transport{Kind: "ws", Target: "ws://erp", New: func(context.Context) (mcp.Transport, error) { return nil, nil }}}
	}
	require.Equal(t, []string{"the way it is reached changed"}, Of(custom(), custom()))
}

// No kind of value is left out, and none cannot be compared: each field that differs alone is named.
func TestOf_every_field(t *testing.T) {
	base := mcpvisor.ServerSpec{Name: "erp", Stdio: &mcpvisor.Stdio{}, HTTP: &mcpvisor.HTTP{TLS: &mcpvisor.TLS{}}}
	var check func(path string, at func(*mcpvisor.ServerSpec) reflect.Value)
	checked := 0
	check = func(path string, at func(*mcpvisor.ServerSpec) reflect.Value) {
		changed := base.Clone()
		tls := *base.HTTP.TLS
		changed.HTTP.TLS = &tls
		v := at(&changed)
		for i := range v.NumField() {
			field := strings.TrimPrefix(path+"."+v.Type().Field(i).Name, ".")
			below := func(s *mcpvisor.ServerSpec) reflect.Value { return reflect.Indirect(at(s).Field(i)) }
			switch f := v.Field(i); {
			case isUnexplained(field) || field == "HTTP.Auth" || field == "Transport":
				continue
			case f.Kind() == reflect.Struct, f.Kind() == reflect.Pointer:
				check(field, below)
				continue
			case f.Kind() == reflect.Bool:
				f.SetBool(true)
			case f.CanInt():
				f.SetInt(7)
			case f.CanFloat():
				f.SetFloat(0.5)
			case f.Kind() == reflect.String:
				f.SetString("x")
			case f.Kind() == reflect.Slice:
				f.Set(reflect.ValueOf([]string{"x"}))
			case field == "ToolSettings":
				f.Set(reflect.ValueOf(map[string]mcpvisor.ToolSetting{"x": {}}))
			default:
				f.Set(reflect.ValueOf(map[string]string{"X": "x"}))
			}
			require.Len(t, Of(base, changed), 1, field)
			require.NotContains(t, Of(base, changed)[0], "way it is reached", field)
			v.Field(i).SetZero()
			checked++
		}
	}
	check("", func(s *mcpvisor.ServerSpec) reflect.Value { return reflect.ValueOf(s).Elem() })
	require.Greater(t, checked, 40)
}

func isUnexplained(field string) bool {
	for _, f := range unexplained {
		if f == field {
			return true
		}
	}
	return false
}
