package httpbody

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// ReadUpTo reads to the end, to the limit, or to the first complete value that is enough.
func TestReadUpTo(t *testing.T) {
	long := strings.Repeat("x", 5000)
	got, ended, err := (&BodyReader{Body: iotest.OneByteReader(strings.NewReader(long))}).ReadUpTo(5000, -1, nil)
	require.NoError(t, err)
	require.True(t, ended)
	require.Equal(t, long, string(got))
	_, _, err = (&BodyReader{Body: strings.NewReader(long)}).ReadUpTo(4999, -1, nil)
	require.ErrorIs(t, err, ErrTooLong)
	_, _, err = (&BodyReader{Body: strings.NewReader(long)}).ReadUpTo(math.MaxInt, 6000, nil)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	broken := errors.New("reset")
	_, _, err = (&BodyReader{Body: io.MultiReader(strings.NewReader("{"), iotest.ErrReader(broken))}).ReadUpTo(100, -1, nil)
	require.ErrorIs(t, err, broken)
	_, ended, err = (&BodyReader{Body: io.MultiReader(strings.NewReader("{}"), iotest.ErrReader(broken))}).ReadUpTo(100, -1, func(b []byte) bool { return bytes.Equal(b, []byte("{}")) })
	require.NoError(t, err)
	require.False(t, ended)
}

// A complete value that is not the answer is examined once, however much white space
// follows it.
func TestBodyReader_whiteSpaceAfterOtherValue(t *testing.T) {
	for name, read := range map[string]func(b *BodyReader, enough func([]byte) bool) error{
		"answer": func(b *BodyReader, enough func([]byte) bool) error {
			_, _, err := b.ReadUpTo(1<<20, -1, enough)
			return err
		},
		"error status": func(b *BodyReader, enough func([]byte) bool) error {
			if _, err := b.Read(40, enough); err != nil {
				return err
			}
			_, err := b.Read(1<<20, enough)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			body := BodyReader{Body: iotest.OneByteReader(strings.NewReader(" \n{\"a\": {}} " + strings.Repeat(" \r\n\t", 100)))}
			require.NoError(t, read(&body, func([]byte) bool { asked++; return false }))
			require.Equal(t, 1, asked)
			require.Len(t, body.Text, 412, "the text is kept whole")
		})
	}
}

// A byte order mark before a body is no part of it, even if it arrives in pieces.
func TestBodyReader_byteOrderMark(t *testing.T) {
	const text = "{\"a\":\"\ufeff\"}"
	for _, expected := range []int64{-1, int64(len("\ufeff" + text))} {
		got, _, err := (&BodyReader{Body: iotest.OneByteReader(strings.NewReader("\ufeff" + text))}).ReadUpTo(100, expected, nil)
		require.NoError(t, err)
		require.Equal(t, text, string(got))
	}
	endless := io.MultiReader(iotest.OneByteReader(strings.NewReader("\ufeff"+text)), iotest.ErrReader(errors.New("read too far")))
	got, _, err := (&BodyReader{Body: endless}).ReadUpTo(100, -1, func(b []byte) bool { return string(b) == text })
	require.NoError(t, err)
	require.Equal(t, text, string(got))
}

// A large Content-Length does not allocate memory before the bytes arrive.
func TestReadUpTo_claimedContentLength(t *testing.T) {
	got, _, err := (&BodyReader{Body: strings.NewReader("{}")}).ReadUpTo(1<<28, 1<<27, nil)
	require.NoError(t, err)
	require.Equal(t, "{}", string(got))
	require.Less(t, cap(got), 2*maxPreallocated)
	_, _, err = (&BodyReader{Body: strings.NewReader("{}")}).ReadUpTo(1, 2, nil)
	require.ErrorIs(t, err, ErrTooLong)
}

// A limit near the largest int does not overflow.
func TestReadUpTo_hugeLimit(t *testing.T) {
	text := strings.Repeat("x", 3*jsonrpc.LargeMessage)
	for _, limit := range transporttest.HugeLimits {
		for _, expected := range []int64{-1, int64(len(text))} {
			got, _, err := (&BodyReader{Body: strings.NewReader(text)}).ReadUpTo(limit, expected, nil)
			require.NoError(t, err)
			require.Equal(t, text, string(got))
		}
	}
	_, _, err := (&BodyReader{Body: bytes.NewReader(make([]byte, 11))}).ReadUpTo(10, -1, nil)
	require.ErrorIs(t, err, ErrTooLong)
	got, _, err := (&BodyReader{Body: bytes.NewReader(make([]byte, 10))}).ReadUpTo(10, -1, nil)
	require.NoError(t, err)
	require.Len(t, got, 10)
}

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
