package elicited

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/facade"
)

// However many sessions a principal opens, and whatever they ask, the interactions of others stay: each
// time the oldest of the principal with the most is forgotten, and of its session with the most.
func TestStore_room_is_shared_by_principals(t *testing.T) {
	s := new(Store)
	c, err := facade.New()
	require.NoError(t, err)
	var told []string
	begin := func(principal, key, id string) {
		session := &Session{Key: key, Principal: principal, Client: c, CopyOf: func(string) string { return key }, Tell: func(_, id string) { told = append(told, key+id) }}
		params := json.RawMessage(`{"mode":"url","elicitationId":"` + id + `"}`)
		s.Begin(session, "bank", params, params)
	}
	for i := range MaxOfSession { // one session with its whole room, which is not more than the many below
		begin("ann", "ann", fmt.Sprint(i))
	}
	begin("", "bob", "1") // without a token
	begin("eve", "old", "1")
	for i := range MaxOfSession - 1 {
		begin("eve", "wide", fmt.Sprint(i))
	}
	for i := range MaxOpen {
		begin("eve", fmt.Sprint("eve", i), "x")
	}
	open, _ := s.Len()
	require.Equal(t, MaxOpen, open)
	for i := range MaxOfSession {
		s.complete(name{c, "ann", "bank", fmt.Sprint(i)})
	}
	s.complete(name{c, "bob", "bank", "1"})
	require.Len(t, told, MaxOfSession+1)
	told = nil
	s.complete(name{c, "wide", "bank", "0"})
	require.Empty(t, told, "the session of eve with the most gave way first")
	s.ForgetSession("ann")
}
