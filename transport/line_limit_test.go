package transport

import (
	"bytes"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

// hugeLimits are those at which a sum with the size of a buffer overflows.
var hugeLimits = []int{math.MaxInt, math.MaxInt - 1, math.MaxInt - ReadBufferSize, math.MaxInt - ReadBufferSize + 1, math.MaxInt/2 + 1}

// A limit that is none does no harm.
func TestLineReaderWithoutLimit(t *testing.T) {
	large := strings.Repeat("x", 3*LargeMessage)
	for _, limit := range hugeLimits {
		l := newLineReader(strings.NewReader("short\n"+large+"\nrest"), limit)
		for _, want := range []string{"short", large, "rest"} {
			line, _, over, err := l.next()
			require.Equal(t, want, string(line))
			require.False(t, over)
			require.True(t, err == nil || errors.Is(err, io.EOF), err)
			require.Equal(t, want, string(l.claim(line)))
		}
	}
}

func TestReadUpToWithoutLimit(t *testing.T) {
	text := strings.Repeat("x", 3*LargeMessage)
	for _, limit := range hugeLimits {
		for _, expected := range []int64{-1, int64(len(text))} {
			got, _, err := (&bodyReader{r: strings.NewReader(text)}).readUpTo(limit, expected, nil)
			require.NoError(t, err)
			require.Equal(t, text, string(got))
		}
	}
	_, _, err := (&bodyReader{r: bytes.NewReader(make([]byte, 11))}).readUpTo(10, -1, nil)
	require.ErrorIs(t, err, errTooLong)
	got, _, err := (&bodyReader{r: bytes.NewReader(make([]byte, 10))}).readUpTo(10, -1, nil)
	require.NoError(t, err)
	require.Len(t, got, 10)
}

func TestSessionsWithoutLineLimit(t *testing.T) {
	web := newScripted(t)
	spec := httpSpec(web.URL)
	spec.Limits.MaxMessageBytes = math.MaxInt
	requireServing(t, openHTTP(t, spec))

	d, err := NewDialer(mcpvisor.ServerSpec{Name: "tiny", Limits: mcpvisor.Limits{MaxMessageBytes: math.MaxInt},
		InMemory: &mcpvisor.InMemory{Serve: legacyServer(nil)}}, memoryOptions)
	require.NoError(t, err)
	s := d.NewSession()
	releaseAtEnd(t, s)
	require.NoError(t, s.Open(testContext(t)))
	_, err = s.Request(testContext(t), tinyCall("any"))
	require.NoError(t, err)
}
