package gatewaytest

import (
	"bytes"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Misbehaviours are what hosts may do wrong, or do on purpose, by name. Every way to the gateway has a row
// for each of them, or a reason why it cannot happen there: see [RequireRows].
var Misbehaviours = map[string]string{
	"frame/malformed":       "messages that are not JSON, not JSON-RPC, or mutants of a call: a million with -hostile.frames",
	"frame/64-mib":          "a message of 64 MiB",
	"frame/64-mib-unnamed":  "a message of 64 MiB whose length is not said before",
	"frame/nested":          "a message that is nested 100,000 levels deep",
	"frame/cut":             "a message whose second half never comes, because the connection ends",
	"batch/where-none-are":  "a batch in a version that has none",
	"batch/nothing":         "batches of nothing, of batches, and of numbers",
	"batch/too-many":        "a batch of 100,000 messages",
	"batch/one-id":          "a batch of calls with one id",
	"id/duplicate":          "a call with the id of a call that is in flight",
	"id/reused":             "one id for all requests, one after another",
	"id/strange":            "ids that are no ids, or a megabyte long",
	"answer/never-asked":    "answers to questions that were not asked",
	"cancel/never-asked":    "cancellations of what was never asked",
	"flood/calls":           "more calls that hang than may be in flight",
	"flood/streams":         "a hundred streams for one session",
	"deaf/answer":           "does not read the answer of a call",
	"deaf/queue":            "calls, and reads none of the answers: more than 1 MiB waits for it",
	"deaf/stream":           "does not read what it is told",
	"slow/head":             "sends the head of a request byte by byte",
	"slow/frame":            "sends a message byte by byte",
	"gone/in-a-call":        "ends the connection while its call runs",
	"access/host":           "requests under the name of another machine",
	"access/origin":         "requests of the page of another site",
	"access/token":          "no token, wrong tokens, and a hash in place of a token",
	"access/audience":       "a token that was issued for another server",
	"session/forged":        "ids of sessions that were changed or made up",
	"session/of-another":    "the session of another principal",
	"session/expired":       "a session that is too old",
	"session/ended":         "a session that was ended",
	"task/of-another":       "the task of another principal, or an unknown one",
	"end/idle":              "ends, with nothing in flight",
	"end/in-a-frame":        "ends in the middle of a message",
	"end/before-initialize": "ends before it has said anything",
}

// RequireRows requires that each misbehaviour has a row, or a reason why it has no row.
func RequireRows[Row any](t *testing.T, rows map[string]Row, reasons map[string]string) {
	t.Helper()
	require.ElementsMatch(t, slices.Collect(maps.Keys(Misbehaviours)), append(slices.Collect(maps.Keys(rows)), slices.Collect(maps.Keys(reasons))...),
		"each misbehaviour has one row or one reason")
}

// malformed are frames that nothing can be made of.
var malformed = []string{
	" ", "null", "1", `"x"`, "{}", "{", "}", "[", "]", `{"jsonrpc":"2.0"}`, `{"jsonrpc":"1.0","id":1,"method":"ping"}`, `{"id":1,"method":"ping"}`,
	`{"jsonrpc":"2.0","id":1,"method":7}`, `{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, `{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}`,
	`{"jsonrpc":"2.0","id":1,"method":"ping"}{}`, `{"jsonrpc":"2.0","id":1,"method":"ping"},`, "\xff\xfe", "\x00", `{"jsonrpc":"2.0","id":"\ud800","method":"\ud800"}`,
	`{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}`, `{"jsonrpc":"2.0","id":1,"method":"ping","params":7}`, `{"jsonrpc":"2.0","id":1,"method":""}`,
	`{"jsonrpc":"2.0","id":1,"result":{},"error":{}}`, `{"jsonrpc":"2.0","id":1,"error":7}`, `{"JSONRPC":"2.0","ID":1,"METHOD":"ping"}`,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__echo","arguments":"x"}}`, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":["a__echo"]}}`,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__echo","_meta":7}}`, `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":7}}`,
	`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":7}}`, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{}}}`,
	`{"jsonrpc":"2.0","method":"notifications/cancelled"}`, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":[]}}`,
	`{"jsonrpc":"2.0","id":null,"method":"ping"}`, `{"jsonrpc":"2.0","id":{},"method":"ping"}`, `{"jsonrpc":"2.0","id":[],"method":"ping"}`, `{"jsonrpc":"2.0","id":true,"method":"ping"}`,
	`{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, `{"jsonrpc":"2.0","id":1e400,"method":"ping"}`, `{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}`, `{"jsonrpc":"2.0","id":-0,"method":"ping"}`,
}

// Frames returns n frames without line breaks, most of which are malformed: those that are known, and mutants of a call of
// fixture__echo. The same seed makes the same ones.
func Frames(n int, seed uint64) iter.Seq2[int, []byte] {
	random := rand.New(rand.NewPCG(seed, seed))
	return func(yield func(int, []byte) bool) {
		for i := range n {
			frame := []byte(malformed[i%len(malformed)])
			if i >= len(malformed) {
				frame = fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"fixture__echo","arguments":{"text":"some text"}}}`, i)
				mutate(random, frame)
			}
			if !yield(i, bytes.ReplaceAll(frame, []byte("\n"), []byte(" "))) {
				return
			}
		}
	}
}

// mutate changes a few bytes, most of them to those that mean something in JSON.
func mutate(random *rand.Rand, frame []byte) {
	for range 1 + random.IntN(4) {
		at := random.IntN(len(frame))
		switch random.IntN(4) {
		case 0:
			frame[at] = byte(random.IntN(256))
		case 1:
			frame[at] = `{}[]",:\`[random.IntN(8)]
		case 2: // a part comes twice
			copy(frame[at:], frame[random.IntN(len(frame)):])
		default:
			frame[at] = frame[random.IntN(len(frame))]
		}
	}
}

// Nested is a list in a list, and so on.
func Nested(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }

// StrangeIDs are values in place of an id, as JSON. bad: it is not an id.
func StrangeIDs() map[string]bool {
	return map[string]bool{
		`null`: true, `{}`: true, `[]`: true, `true`: true, `1.5`: true, `1e400`: true, `9007199254740993`: true,
		`-1`: false, `0`: false, `""`: false, `"\u0000"`: false, `"` + strings.Repeat("x", 1<<20) + `"`: false,
	}
}
