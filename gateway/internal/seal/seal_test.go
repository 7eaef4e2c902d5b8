package seal

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
		text := Seal(key, "x", fields...)
		got, err := Open(key, "x", text)
		require.NoError(t, err)
		require.Equal(t, fields, got)
		_, err = Open(key, "y", text)
		require.ErrorIs(t, err, ErrForged)
		_, err = Open(other, "x", text)
		require.ErrorIs(t, err, ErrForged)
		at := rapid.IntRange(0, len(text)-1).Draw(t, "at")
		flipped := "A"
		if text[at] == 'A' {
			flipped = "B"
		}
		_, err = Open(key, "x", text[:at]+flipped+text[at+1:])
		require.ErrorIs(t, err, ErrForged)
		_, err = Open(key, "x", text[:at])
		require.ErrorIs(t, err, ErrForged)
		_, err = Open(key, "x", rapid.String().Draw(t, "text"))
		require.ErrorIs(t, err, ErrForged)
	})
	require.NotContains(t, Seal(key, "x", "secret"), encoding.EncodeToString([]byte("secret")))
	once, again := Seal(key, "x", "same"), Seal(key, "x", "same")
	require.NotEqual(t, once, again)
	require.Empty(t, strings.Trim(Seal(key, "x", "?"), "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"))
	now := time.Now().Truncate(time.Second)
	require.Equal(t, now, ReadTime(Time(now)))
}
