package display

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// A reader sees each character of JSON, and it means the same.
func TestEscaped(t *testing.T) {
	const text = "{\"x\":\"a\u202eb\U000e0065\u200bc\u00a0é 語\"}"
	got := Escaped(text)
	require.Equal(t, `{"x":"a\u202eb\udb40\udc65\u200bc\u00a0é 語"}`, got)
	var want, have any
	require.NoError(t, json.Unmarshal([]byte(text), &want))
	require.NoError(t, json.Unmarshal([]byte(got), &have))
	require.Equal(t, want, have)
}
