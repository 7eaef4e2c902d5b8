package rawjson

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestQuote_agrees_with_encoding_json(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		var back string
		require.NoError(t, json.Unmarshal(Quote(text), &back))
		require.Equal(t, strings.ToValidUTF8(text, "\ufffd"), back)
		if unescaped, ok := Text(Quote(text)); ok {
			require.Equal(t, text, unescaped)
		}
	})
}
