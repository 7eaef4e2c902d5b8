package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A block of an unknown kind is described, and the others are printed.
func TestPrintContents_unknown_kind(t *testing.T) {
	var out strings.Builder
	inv := &invocation{out: &out}
	require.NoError(t, inv.printContents(decodeContents([]json.RawMessage{
		json.RawMessage(`{"type":"text","text":"one"}`), json.RawMessage(`{"type":"weird","foo":1}`), json.RawMessage(`{"type":"text","text":"two"}`),
	})))
	require.Equal(t, "one\n[content of an unknown kind; --json shows it]\ntwo\n", out.String())
}
