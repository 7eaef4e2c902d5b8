package display

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// evil holds one character of each class that must not reach a terminal.
const evil = "a\x1b]0;title\x07b\x9bc\u009b31md\x7f\u2028e\tf\u202eg\u2066h\u200fi\u061cj\U000E0041k\n"

func TestText(t *testing.T) {
	require.Equal(t, "a]0;titleb\uFFFDc31mde\tfghijk\n", Text(evil))
	require.Equal(t, "שלום 👩\u200d👩\u200d👧 می\u200cخواهم", Text("שלום 👩\u200d👩\u200d👧 می\u200cخواهم"), "what a script needs stays")
}

func TestLine(t *testing.T) {
	require.Equal(t, "a]0;titleb\uFFFDc31md e fghijk", Line(evil))
}

func TestJSON(t *testing.T) {
	const text = "{\"a\":\"x\u009by\x7f\u202e\U000E0041é\"}\n"
	got := JSON(text)
	require.Equal(t, "{\"a\":\"x\\u009by\\u007f\\u202e\\udb40\\udc41é\"}\n", got)
	var before, after any
	require.NoError(t, json.Unmarshal([]byte(text), &before))
	require.NoError(t, json.Unmarshal([]byte(got), &after))
	require.Equal(t, before, after, "the value is the same")
}

func TestCount(t *testing.T) {
	require.Equal(t, "0 tools, 1 prompt, 2 resources", Count(0, "tool")+", "+Count(uint64(1), "prompt")+", "+Count(2, "resource"))
}
