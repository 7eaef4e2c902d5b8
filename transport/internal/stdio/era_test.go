package stdio

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

var errAsked = errors.New("asked what it does not know")

// answering is a server that says what reply returns, if that is anything, and
// ends at a panic of it.
func answering(reply func(out io.Writer, e jsonrpc.Envelope) string) transporttest.ServeFunc {
	return func(_ context.Context, stdin io.ReadCloser, stdout io.WriteCloser, _ io.Writer) error {
		in := bufio.NewScanner(stdin)
		for in.Scan() {
			e, _ := jsonrpc.ScanEnvelope(in.Bytes())
			if text := reply(stdout, e); text != "" && e.ID != nil {
				fmt.Fprintln(stdout, text)
			}
		}
		return in.Err()
	}
}

// What a server says to server/discover and initialize; "" is nothing.
const (
	unknownVersion = `"error":{"code":-32022,"message":"no such version"}`
	exits          = "exits"
)

// eraServer answers the two, discover when delay has passed.
func eraServer(discover, initialize string, delay time.Duration) transporttest.ServeFunc {
	return answering(func(out io.Writer, e jsonrpc.Envelope) string {
		said := transporttest.UnknownMethod
		switch string(e.Method) {
		case `"server/discover"`:
			if said = discover; delay > 0 {
				id := string(e.ID)
				time.AfterFunc(delay, func() { fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,%s}`+"\n", id, discover) })
				return ""
			}
		case `"initialize"`:
			said = initialize
		}
		switch said {
		case "":
			return ""
		case exits:
			panic(errAsked)
		}
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, e.ID, said)
	})
}

// asleep is a server that starts slowly.
func asleep(d time.Duration, serve transporttest.ServeFunc) transporttest.ServeFunc {
	return func(ctx context.Context, stdin io.ReadCloser, stdout io.WriteCloser, stderr io.Writer) error {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
		return serve(ctx, stdin, stdout, stderr)
	}
}

// lives is a dialer of which each process is the next of the servers, and the
// last one from then on.
func lives(t *testing.T, era mcpvisor.Era, servers ...transporttest.ServeFunc) (d *pipedDialer, started *atomic.Int64) {
	t.Helper()
	started = new(atomic.Int64)
	made, err := dialPipes(mcpvisor.ServerSpec{Name: "m", Era: era, InMemory: &mcpvisor.InMemory{
		Serve: func(ctx context.Context, stdin io.ReadCloser, stdout io.WriteCloser, stderr io.Writer) error {
			n := int(started.Add(1)) - 1
			return servers[min(n, len(servers)-1)](ctx, stdin, stdout, stderr)
		}}}, transporttest.MemoryOptions)
	require.NoError(t, err)
	return made.(*pipedDialer), started
}

// openFor opens a session within a minute and ends it again.
func openFor(t *testing.T, d *pipedDialer) (era mcpvisor.Era, cause *supervisor.Cause) {
	t.Helper()
	s := d.NewSession()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := s.Open(ctx)
	if err != nil {
		require.ErrorAs(t, err, &cause)
	}
	era = s.Info().Era
	s.Abort(&supervisor.Cause{Kind: supervisor.CauseRequested})
	<-s.Released()
	return era, cause
}

// TestEraOfASlowServer: a modern server that answers server/discover after
// Timeouts.Negotiate is asked once more, with all the time there is. How it
// answers initialize meanwhile, and when, does not matter.
func TestEraOfASlowServer(t *testing.T) {
	for name, initialize := range map[string]string{"no such method": transporttest.UnknownMethod, "no such version": unknownVersion} {
		for _, late := range []time.Duration{mcpvisor.DefaultNegotiateTimeout - time.Millisecond, mcpvisor.DefaultNegotiateTimeout + lastWords/2} {
			t.Run(fmt.Sprint(name, " ", late), func(t *testing.T) {
				transporttest.InBubble(t, func(t *testing.T) {
					d, started := lives(t, mcpvisor.EraAuto, eraServer(transporttest.ModernAnswer, initialize, late))
					era, cause := openFor(t, d)
					require.Nil(t, cause)
					require.Equal(t, mcpvisor.EraModern, era)
					want := int64(1)
					if late > mcpvisor.DefaultNegotiateTimeout {
						want = 2
					}
					require.Equal(t, want, started.Load())
				})
			})
		}
	}
}

// TestEraOfASlowStart is the same for a server that reads nothing for a while.
func TestEraOfASlowStart(t *testing.T) {
	transporttest.InBubble(t, func(t *testing.T) {
		d, started := lives(t, mcpvisor.EraAuto, asleep(10*time.Second, eraServer(transporttest.ModernAnswer, unknownVersion, 0)))
		era, cause := openFor(t, d)
		require.Nil(t, cause)
		require.Equal(t, mcpvisor.EraModern, era)
		require.EqualValues(t, 2, started.Load())
		_, cause = openFor(t, d)
		require.Nil(t, cause)
		require.EqualValues(t, 3, started.Load(), "what it speaks is remembered")
	})
}

// supergateway initializes the server behind it when it hears the first message,
// whatever that is, and refuses the initialize that follows.
func TestEraOfAServerThatDiscoverUpsets(t *testing.T) {
	transporttest.InBubble(t, func(t *testing.T) {
		d, started := lives(t, mcpvisor.EraAuto, func(ctx context.Context, stdin io.ReadCloser, stdout io.WriteCloser, stderr io.Writer) error {
			discovered := false
			return answering(func(_ io.Writer, e jsonrpc.Envelope) string {
				said := transporttest.LegacyAnswer
				switch {
				case string(e.Method) == `"server/discover"`:
					discovered, said = true, transporttest.UnknownMethod
				case string(e.Method) == `"initialize"` && discovered:
					said = `"error":{"code":-32600,"message":"already initialized"}`
				}
				return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, e.ID, said)
			})(ctx, stdin, stdout, stderr)
		})
		era, cause := openFor(t, d)
		require.Nil(t, cause)
		require.Equal(t, mcpvisor.EraLegacy, era)
		require.EqualValues(t, 2, started.Load())
		_, cause = openFor(t, d)
		require.Nil(t, cause)
		require.EqualValues(t, 3, started.Load(), "it is remembered that it must not be asked")
	})
}

// TestEraUnheardIsNotHopeless: a server that refuses the old version is given
// up for good only if it was heard to refuse the new one.
func TestEraUnheardIsNotHopeless(t *testing.T) {
	for name, c := range map[string]struct {
		era       mcpvisor.Era
		discover  string
		delay     time.Duration
		permanent bool
	}{
		"never answered":      {mcpvisor.EraAuto, "", 0, false},
		"answered too late":   {mcpvisor.EraAuto, transporttest.ModernAnswer, time.Hour, false},
		"refused":             {mcpvisor.EraAuto, transporttest.UnknownMethod, 0, true},
		"refused late":        {mcpvisor.EraAuto, transporttest.UnknownMethod, mcpvisor.DefaultNegotiateTimeout + lastWords/2, true},
		"not to be asked":     {mcpvisor.EraLegacy, transporttest.ModernAnswer, 0, true},
		"of no known version": {mcpvisor.EraAuto, `"result":{"supportedVersions":["2099-01-01"],"capabilities":{}}`, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			transporttest.InBubble(t, func(t *testing.T) {
				d, _ := lives(t, c.era, eraServer(c.discover, unknownVersion, c.delay))
				_, cause := openFor(t, d)
				require.NotNil(t, cause)
				require.Equal(t, supervisor.CauseVersion, cause.Kind)
				require.Equal(t, c.permanent, cause.Permanent)
			})
		})
	}
}

// TestEraIsForgotten: what one incarnation spoke is a hint for the next, and no
// more.
func TestEraIsForgotten(t *testing.T) {
	modern, legacy := eraServer(transporttest.ModernAnswer, transporttest.UnknownMethod, 0), eraServer(transporttest.UnknownMethod, transporttest.LegacyAnswer, 0)
	for name, c := range map[string]struct {
		first, later transporttest.ServeFunc
		fails        int // before it is served again
		want         mcpvisor.Era
	}{
		"modern, then legacy":                      {modern, legacy, 0, mcpvisor.EraLegacy},
		"modern, then legacy and ignores the rest": {modern, eraServer("", transporttest.LegacyAnswer, 0), 0, mcpvisor.EraLegacy},
		"modern, then legacy and exits":            {modern, eraServer(exits, transporttest.LegacyAnswer, 0), faith, mcpvisor.EraLegacy},
		"modern, then slow":                        {modern, eraServer(transporttest.ModernAnswer, transporttest.UnknownMethod, 20*time.Second), 0, mcpvisor.EraModern},
		"modern, then starts slowly":               {modern, asleep(20*time.Second, modern), 0, mcpvisor.EraModern},
		"legacy, then modern":                      {legacy, modern, 1, mcpvisor.EraModern},
		"legacy, then of another version":          {legacy, eraServer(transporttest.ModernAnswer, unknownVersion, 0), 1, mcpvisor.EraModern},
	} {
		t.Run(name, func(t *testing.T) {
			transporttest.InBubble(t, func(t *testing.T) {
				d, _ := lives(t, mcpvisor.EraAuto, c.first, c.later)
				_, cause := openFor(t, d)
				require.Nil(t, cause)
				for range c.fails {
					_, cause = openFor(t, d)
					require.NotNil(t, cause)
					require.False(t, cause.Permanent)
				}
				for range 2 {
					era, cause := openFor(t, d)
					require.Nil(t, cause)
					require.Equal(t, c.want, era)
				}
			})
		})
	}
}

// TestEraIsKeptThroughCrashes: a server that was modern and crashes as it starts
// has crashed. It is asked once for each try, and comes back as it was.
func TestEraIsKeptThroughCrashes(t *testing.T) {
	modern, crashes := eraServer(transporttest.ModernAnswer, transporttest.UnknownMethod, 0), eraServer(exits, transporttest.LegacyAnswer, 0)
	transporttest.InBubble(t, func(t *testing.T) {
		d, started := lives(t, mcpvisor.EraAuto, modern, crashes, crashes, modern)
		_, cause := openFor(t, d)
		require.Nil(t, cause)
		for try := range faith {
			_, cause = openFor(t, d)
			require.NotNil(t, cause)
			require.EqualValues(t, 2+try, started.Load(), "one process for each try")
		}
		era, cause := openFor(t, d)
		require.Nil(t, cause)
		require.Equal(t, mcpvisor.EraModern, era)
		require.Zero(t, d.doubts.Load())
	})
}

// TestEraOfASlowStartIsNotForgotten: one that speaks both, and answered
// server/discover too late for this session, is modern in the next.
func TestEraOfASlowStartIsNotForgotten(t *testing.T) {
	transporttest.InBubble(t, func(t *testing.T) {
		both := eraServer(transporttest.ModernAnswer, transporttest.LegacyAnswer, 0)
		d, _ := lives(t, mcpvisor.EraAuto, asleep(10*time.Second, both), both)
		for _, want := range []mcpvisor.Era{mcpvisor.EraLegacy, mcpvisor.EraModern} {
			era, cause := openFor(t, d)
			require.Nil(t, cause)
			require.Equal(t, want, era)
			synctest.Wait()
		}
	})
}
