package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// output is a buffer that calls seen after each write.
type output struct {
	mu   sync.Mutex
	all  bytes.Buffer
	seen func(text string)
}

// Write implements io.Writer.
func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all.Write(b)
	o.seen(o.all.String())
	return len(b), nil
}

// With --http the demo serves the page from its start, stays when its story has ended, and
// ends when it is interrupted, as checked as without.
func TestRun_page(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	stays, url := make(chan string), regexp.MustCompile(`page (http://127\.0\.0\.1:\d+/) stay`)
	var once sync.Once
	out := &output{seen: func(text string) {
		if found := url.FindStringSubmatch(text); found != nil {
			once.Do(func() { go func() { stays <- found[1] }() })
		}
	}}
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, newPrinter(out), settings{seed: 42, storm: 1500 * time.Millisecond, http: "127.0.0.1:0"})
	}()
	page := <-stays
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, page+"api/status", nil)
	require.NoError(t, err)
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.Contains(t, string(body), `"names":["calc","files","flaky","legacy","remote","stuck"]`)
	select {
	case code := <-ended:
		require.Fail(t, "it has ended", "code %d", code)
	default:
	}
	interrupt()
	require.Zero(t, <-ended, out.all.String())
	require.Contains(t, out.all.String(), "PASS")
}

func TestRun_page_refused(t *testing.T) {
	var out bytes.Buffer
	require.Equal(t, 1, run(t.Context(), newPrinter(&out), settings{http: "0.0.0.0:0"}))
	require.Contains(t, out.String(), "can be reached from other machines")
}

func TestAddressFlag(t *testing.T) {
	for args, want := range map[string]string{"--http": defaultAddress, "--http=:1": ":1", "--http=false": "", "": ""} {
		s, _, done := parseFlags(strings.Fields(args), io.Discard, io.Discard)
		require.False(t, done)
		require.Equal(t, want, s.http, args)
	}
}
