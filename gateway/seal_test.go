package gateway

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mcpvisor/mcpvisor/gateway/internal/sessionid"
)

// What was sealed is read again, with the same key and for the same kind only, and a text that was changed
// in any place is refused.
func TestSeal(t *testing.T) {
	key, other := sessionid.NewKey(), sessionid.NewKey()
	rapid.Check(t, func(t *rapid.T) {
		fields := rapid.SliceOfN(rapid.String(), 1, 5).Draw(t, "fields")
		text := seal(key, "x", fields...)
		got, err := openSeal(key, "x", text)
		require.NoError(t, err)
		require.Equal(t, fields, got)
		_, err = openSeal(key, "y", text)
		require.ErrorIs(t, err, errSeal)
		_, err = openSeal(other, "x", text)
		require.ErrorIs(t, err, errSeal)
		at := rapid.IntRange(0, len(text)-1).Draw(t, "at")
		_, err = openSeal(key, "x", text[:at]+string("AB"[btoi(text[at] == 'A')])+text[at+1:])
		require.ErrorIs(t, err, errSeal)
		_, err = openSeal(key, "x", text[:at])
		require.ErrorIs(t, err, errSeal)
		_, err = openSeal(key, "x", rapid.String().Draw(t, "text"))
		require.ErrorIs(t, err, errSeal)
	})
	require.NotContains(t, seal(key, "x", "secret"), sealEncoding.EncodeToString([]byte("secret")))
	once, again := seal(key, "x", "same"), seal(key, "x", "same")
	require.NotEqual(t, once, again)
	require.Empty(t, strings.Trim(seal(key, "x", "?"), "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"))
	now := time.Now().Truncate(time.Second)
	require.Equal(t, now, readTimeField(timeField(now)))
}
