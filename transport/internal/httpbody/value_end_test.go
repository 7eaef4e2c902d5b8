package httpbody

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The end of a JSON object or array is found at its last byte, however the text is split
// into parts.
func TestValueEnd(t *testing.T) {
	text := rapid.Custom(func(t *rapid.T) string {
		value := rapid.OneOf(
			rapid.Map(rapid.MapOf(rapid.String(), rapid.SliceOf(rapid.String())), func(m map[string][]string) any { return m }),
			rapid.Map(rapid.SliceOf(rapid.StringMatching(`[\[\]{}"\\a]{0,8}`)), func(l []string) any { return l }),
		).Draw(t, "value")
		b, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		return rapid.StringMatching(`[ \n]{0,3}`).Draw(t, "before") + string(b)
	})
	rapid.Check(t, func(t *rapid.T) {
		whole := []byte(text.Draw(t, "text"))
		var end valueEnd
		for at := 0; at < len(whole); {
			if end.reached(whole[:at]) {
				t.Fatalf("ended at %d of %q", at, whole)
			}
			at += min(rapid.IntRange(1, 9).Draw(t, "part"), len(whole)-at)
		}
		if !end.reached(whole) || !end.reached(append(whole, " \n"...)) {
			t.Fatalf("no end of %q", whole)
		}
		if end.reached(append(whole, '{')) {
			t.Fatalf("an end was found although more text follows")
		}
	})
	for _, text := range []string{"", " ", "42", `"{}"`, "null", "x{}", "]"} {
		var end valueEnd
		require.False(t, end.reached([]byte(text)), text)
	}
}
