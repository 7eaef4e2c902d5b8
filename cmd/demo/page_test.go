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

// runWithPage runs the demo with its page, which is served from the start, stays when the story has ended,
// and ends with the demo when that is interrupted. It returns what the demo has printed.
func runWithPage(t *testing.T) string {
	t.Helper()
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	stays, url := make(chan string, 1), regexp.MustCompile(`page (http://127\.0\.0\.1:\d+/)\s+stay`)
	var once sync.Once
	out := &output{seen: func(text string) {
		if found := url.FindStringSubmatch(text); found != nil {
			once.Do(func() { stays <- found[1] })
		}
	}}
	ended := make(chan int, 1)
	p := newPrinter(out)
	p.width = 80
	go func() {
		ended <- run(ctx, p, settings{seed: 42, storm: 1500 * time.Millisecond, http: "127.0.0.1:0"})
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
	require.Empty(t, ended, "it has ended")
	interrupt()
	require.Zero(t, <-ended, out.all.String())
	return out.all.String()
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
