package records_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor/fleet/internal/etcdtest"
	"github.com/mcpvisor/mcpvisor/fleet/internal/records"
	"github.com/mcpvisor/mcpvisor/fleet/internal/storetest/memory"
	"github.com/mcpvisor/mcpvisor/fleet/placement"
	"github.com/mcpvisor/mcpvisor/fleet/store"
	"github.com/mcpvisor/mcpvisor/fleet/store/etcd"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// watched is a store that counts commits, and does something before or instead of one.
type watched struct {
	store.Store
	commits int
	before  func(commit int) error
}

func (w *watched) Commit(ctx context.Context, txn store.Txn) (store.Result, error) {
	if len(txn.Then) == 0 { // it reads
		return w.Store.Commit(ctx, txn)
	}
	w.commits++
	if w.before != nil {
		if err := w.before(w.commits); err != nil {
			return store.Result{}, err
		}
	}
	return w.Store.Commit(ctx, txn)
}

func newStore(t *testing.T) *watched {
	s := memory.New()
	t.Cleanup(func() { _ = s.Close() })
	return &watched{Store: s}
}

func put(t *testing.T, s store.Store, key, value string) {
	_, err := s.Commit(t.Context(), store.Txn{Then: []store.Change{store.Put(key, []byte(value))}})
	require.NoError(t, err)
}

func values(t *testing.T, s store.Store) map[string]string {
	snapshot, err := s.Read(t.Context(), "")
	require.NoError(t, err)
	values := map[string]string{}
	for _, pair := range snapshot.Pairs {
		values[pair.Key] = string(pair.Value)
	}
	return values
}

func server(name, definition string) records.ServerRecord {
	return records.ServerRecord{Name: name, Definition: []byte(definition)}
}

// many are servers whose configuration needs several transactions.
func many(count int, definition string) (servers []records.ServerRecord) {
	for i := range count {
		servers = append(servers, server(fmt.Sprintf("server%04d", i), definition))
	}
	return servers
}

func TestApply(t *testing.T) {
	s := newStore(t)
	apply := func(want uint64, servers ...records.ServerRecord) {
		t.Helper()
		generation, err := records.Apply(t.Context(), s, servers, nil)
		require.NoError(t, err)
		require.Equal(t, want, generation)
	}
	apply(0)
	require.Empty(t, values(t, s))
	lock := records.ServerRecord{Name: "lock", Spec: placement.Spec{Exclusive: true, Labels: map[string]string{"zone": "1"}}, Definition: []byte(`{ "command": "x" }`)}
	apply(1, server("a", `{}`), lock, server("none", ``+`null`))
	require.Equal(t, map[string]string{
		"generation": `{"v":1,"applied":1}`,
		"spec/a":     `{"v":1,"definition":{},"generation":1}`,
		"spec/lock":  `{"v":1,"exclusive":true,"labels":{"zone":"1"},"definition":{"command":"x"},"generation":1}`,
		"spec/none":  `{"v":1,"definition":null,"generation":1}`,
	}, values(t, s))

	commits := s.commits
	lock.Definition = []byte(`{"command":"x"}`)
	apply(1, server("none", `null`), lock, server("a", `{}`))
	require.Equal(t, commits, s.commits, "nothing has changed")

	put(t, s, "spec/a", `{"v":1,"definition":{},"generation":1,"later":"kept"}`)
	put(t, s, "place/none", `of a node`)
	lock.Definition = []byte(`{"command":"y"}`)
	apply(2, server("a", `{"a":1}`), lock, server("new", `{}`))
	require.Equal(t, map[string]string{
		"generation": `{"v":1,"applied":2}`,
		"spec/a":     `{"definition":{"a":1},"generation":2,"later":"kept","v":1}`,
		"spec/lock":  `{"v":1,"exclusive":true,"labels":{"zone":"1"},"definition":{"command":"y"},"generation":2}`,
		"spec/new":   `{"v":1,"definition":{},"generation":2}`,
		"place/none": `of a node`,
	}, values(t, s))
	apply(3)
	require.Len(t, values(t, s), 2)
}

// What gateways offer is written before servers are changed or added. An Apply that does not name it
// leaves it alone.
func TestApply_gateway(t *testing.T) {
	s := newStore(t)
	apply := func(want uint64, gateway string, servers ...records.ServerRecord) {
		t.Helper()
		generation, err := records.Apply(t.Context(), s, servers, json.RawMessage(gateway))
		require.NoError(t, err)
		require.Equal(t, want, generation)
	}
	require.NoError(t, func() error { _, err := records.Apply(t.Context(), s, nil, records.NoGateway); return err }())
	require.Empty(t, values(t, s))
	apply(1, `{ "on_down": "5m" }`)
	require.Equal(t, `{"v":1,"definition":{"on_down":"5m"},"generation":1}`, values(t, s)["gateway"])
	apply(1, `{"on_down":"5m"}`)
	put(t, s, "gateway", `{"v":1,"definition":{"on_down":"5m"},"generation":1,"later":"kept"}`)
	apply(2, `{"on_down":"keep"}`, server("a", `{}`))
	require.Equal(t, `{"definition":{"on_down":"keep"},"generation":2,"later":"kept","v":1}`, values(t, s)["gateway"])

	generation, err := records.Apply(t.Context(), s, []records.ServerRecord{server("a", `{"b":1}`)}, nil)
	require.NoError(t, err)
	require.EqualValues(t, 3, generation)
	require.Contains(t, values(t, s)["gateway"], "keep")
	apply(4, string(records.NoGateway), server("a", `{"b":1}`))
	require.NotContains(t, values(t, s), "gateway")

	first := s.commits + 1
	s.before = func(commit int) error {
		if commit > first {
			return errors.New("away")
		}
		return nil
	}
	_, err = records.Apply(t.Context(), s, many(250, `{}`), json.RawMessage(`{}`))
	require.ErrorContains(t, err, "away")
	require.Contains(t, values(t, s), "gateway", "it is in the first transaction")
	s.before = nil
	apply(6, `{}`, many(250, `{}`)...)

	put(t, s, "gateway", `{"v":2}`)
	for problem, gateway := range map[string]string{
		"the gateway cannot be changed: the record has version 2":              `{"a":1}`,
		"the gateway: its definition is not valid JSON":                        `{`,
		"the gateway: its definition has 262145 bytes, and 262144 are allowed": `"` + strings.Repeat("<", 256<<10-1) + `"`,
	} {
		_, err := records.Apply(t.Context(), s, nil, json.RawMessage(gateway))
		require.ErrorContains(t, err, problem)
	}
	apply(7, string(records.NoGateway))
	require.NotContains(t, values(t, s), "gateway", "as a server whose record cannot be read is removed")
}

// TestApply_refuses: nothing is written.
func TestApply_refuses(t *testing.T) {
	s := newStore(t)
	put(t, s, "spec/lock", `{"v":1,"exclusive":true}`)
	put(t, s, "spec/later", `{"v":2}`)
	before := values(t, s)
	labels := map[string]string{"a": strings.Repeat("b", 300<<10)}
	for problem, servers := range map[string][]records.ServerRecord{
		`server "lock": exclusive must not change from true to false`:         {server("new", `{}`), server("lock", `{}`)},
		`server "later" cannot be changed: the record has version 2`:          {server("later", `{}`)},
		`server "a" is defined twice`:                                         {server("a", `{}`), server("a", `{}`)},
		`server "": a name has 1 to 256 bytes`:                                {server("", `{}`)},
		`server "a/b": a name has`:                                            {server("a/b", `{}`)},
		`server "a": its definition is not valid JSON`:                        {server("a", `{`)},
		`server "a": its definition has 262145 bytes, and 262144 are allowed`: {server("a", `"`+strings.Repeat("<", 256<<10-1)+`"`)},
		`server "a": its record has`:                                          {{Name: "a", Spec: placement.Spec{Labels: labels}, Definition: []byte(`"` + strings.Repeat("<", 250<<10) + `"`)}},
	} {
		_, err := records.Apply(t.Context(), s, servers, nil)
		require.ErrorContains(t, err, problem)
		require.Equal(t, before, values(t, s))
	}
	_, err := records.Apply(t.Context(), s, many(257, `"`+strings.Repeat("x", 256<<10-2)+`"`), nil)
	require.ErrorContains(t, err, "the definitions of all servers have more than 67108864 bytes")
	_, err = records.Apply(t.Context(), s, []records.ServerRecord{
		{Name: "lock", Spec: placement.Spec{Exclusive: true}}, server("a", `"`+strings.Repeat("<", 256<<10-2)+`"`),
	}, nil)
	require.NoError(t, err, "as much as is allowed")
	require.NotContains(t, values(t, s), "spec/later")
	put(t, s, records.GenerationKey, `{"v":2}`)
	_, err = records.Apply(t.Context(), s, nil, nil)
	require.ErrorContains(t, err, "the record generation of the store: the record has version 2")
}

// TestApply_interrupted: a configuration that is applied in part says so, and is completed.
func TestApply_interrupted(t *testing.T) {
	s := newStore(t)
	_, err := records.Apply(t.Context(), s, many(250, `{"a":1}`), nil)
	require.NoError(t, err)
	require.Equal(t, 3, s.commits)

	lost := errors.New("lost")
	s.commits, s.before = 0, func(commit int) error {
		if commit == 2 {
			return lost
		}
		return nil
	}
	wanted := many(210, `{"a":2}`)
	_, err = records.Apply(t.Context(), s, wanted, nil)
	require.ErrorIs(t, err, lost)
	require.ErrorContains(t, err, "applied partly")
	now := values(t, s)
	require.Equal(t, `{"v":1,"applied":1,"next":2}`, now["generation"])
	require.NotContains(t, now, "spec/server0249", "removals come first")
	require.Contains(t, now["spec/server0000"], `{"a":2}`)
	require.Contains(t, now["spec/server0209"], `{"a":1}`)

	s.before = nil
	generation, err := records.Apply(t.Context(), s, wanted, nil)
	require.NoError(t, err)
	require.Equal(t, uint64(3), generation)
	now = values(t, s)
	require.Len(t, now, 211)
	require.Equal(t, `{"v":1,"applied":3}`, now["generation"])
	require.Contains(t, now["spec/server0209"], `{"a":2}`)
}

// TestApply_lastAnswerLost: all specifications are there, and the generation is not.
func TestApply_lastAnswerLost(t *testing.T) {
	s := newStore(t)
	put(t, s, "spec/a", `{"v":1,"definition":{},"generation":2}`)
	put(t, s, "generation", `{"v":1,"applied":1,"next":2}`)
	generation, err := records.Apply(t.Context(), s, []records.ServerRecord{server("a", `{}`)}, nil)
	require.NoError(t, err)
	require.Equal(t, uint64(2), generation)
	require.Equal(t, `{"v":1,"applied":2}`, values(t, s)["generation"])
}

// TestApply_conflict: two configurations do not mix, whenever the other one begins.
func TestApply_conflict(t *testing.T) {
	for during := 1; during <= 3; during++ {
		t.Run(fmt.Sprint("before commit ", during), func(t *testing.T) {
			s := newStore(t)
			other := append(many(120, `{"other":true}`), server("only other", `{}`))
			s.before = func(commit int) error {
				if commit == during {
					_, err := records.Apply(t.Context(), s.Store, other, nil)
					require.NoError(t, err)
				}
				return nil
			}
			_, err := records.Apply(t.Context(), s, many(250, `{"a":1}`), nil)
			require.ErrorIs(t, err, records.ErrConflict)
			now := values(t, s)
			require.Len(t, now, 122)
			for key, value := range now {
				require.True(t, key == "generation" || key == "spec/only other" || strings.Contains(value, "other"), "%s: %s", key, value)
			}
		})
	}
}

// TestApply_etcd: a transaction has neither more changes nor more bytes than etcd allows.
func TestApply_etcd(t *testing.T) {
	s, err := etcd.Open(etcd.Config{Endpoints: []string{etcdtest.Start(t).Endpoint}})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	generation, err := records.Apply(t.Context(), s, many(400, `{"command":"x"}`), nil)
	require.NoError(t, err)
	require.Equal(t, uint64(1), generation)
	large := many(20, `"`+strings.Repeat("<", 256<<10-2)+`"`)
	generation, err = records.Apply(t.Context(), s, large, nil)
	require.NoError(t, err)
	require.Equal(t, uint64(2), generation)
	require.Len(t, values(t, s), 21)
}
