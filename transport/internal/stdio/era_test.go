package stdio

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/defaults"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/test/testutil"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// How a server answers server/discover and initialize; "" is no response.
const (
	unknownVersion = `"error":{"code":-32022,"message":"no such version"}`
	exits          = "exits"
)

// eraServer answers server/discover and initialize with these members of a response,
// server/discover after a delay.
func eraServer(discover, initialize string, delay time.Duration) transporttest.ServeFunc {
	return replyServer(func(out io.Writer, e jsonrpc.Envelope) string {
		message := transporttest.UnknownMethod
		switch string(e.Method) {
		case `"server/discover"`:
			if message = discover; delay > 0 {
				id := string(e.ID)
				time.AfterFunc(delay, func() { fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,%s}`+"\n", id, discover) })
				return ""
			}
		case `"initialize"`:
			message = initialize
		}
		switch message {
		case "":
			return ""
		case exits:
			panic(errExits)
		}
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, e.ID, message)
	})
}

// afterDelay is a server that reads nothing for a while, as one that starts slowly.
func afterDelay(d time.Duration, serve transporttest.ServeFunc) transporttest.ServeFunc {
	return func(ctx context.Context, stdin io.ReadCloser, stdout io.WriteCloser, stderr io.Writer) error {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
		return serve(ctx, stdin, stdout, stderr)
	}
}

// openOnce opens a session within a minute and ends it. It returns the era of the
// session, or why it could not be opened.
func openOnce(t *testing.T, d *dialer) (era mcpvisor.Era, cause *supervisor.Cause) {
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

// TestEra_slow_discover_response: a modern server that answers server/discover after
// Timeouts.Negotiate is started again, and then has the whole start timeout. The
// response to initialize does not matter.
func TestEra_slow_discover_response(t *testing.T) {
	for name, initialize := range map[string]string{"no such method": transporttest.UnknownMethod, "no such version": unknownVersion} {
		for _, late := range []time.Duration{defaults.NegotiateTimeout - time.Millisecond, defaults.NegotiateTimeout + evidenceTimeout/2} {
			testutil.RunInBubble(t, fmt.Sprint(name, " ", late), func(t *testing.T) {
				d, started := newServerDialer(t, mcpvisor.EraAuto, eraServer(transporttest.ModernAnswer, initialize, late))
				era, cause := openOnce(t, d)
				require.Nil(t, cause)
				require.Equal(t, mcpvisor.EraModern, era)
				want := int64(1)
				if late > defaults.NegotiateTimeout {
					want = 2
				}
				require.Equal(t, want, started.Load())
			})
		}
	}
}

// TestEra_slow_start: a modern server that reads nothing until Timeouts.Negotiate has
// passed is started again as a modern one.
func TestEra_slow_start(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, started := newServerDialer(t, mcpvisor.EraAuto, afterDelay(10*time.Second, eraServer(transporttest.ModernAnswer, unknownVersion, 0)))
		era, cause := openOnce(t, d)
		require.Nil(t, cause)
		require.Equal(t, mcpvisor.EraModern, era)
		require.EqualValues(t, 2, started.Load())
		_, cause = openOnce(t, d)
		require.Nil(t, cause)
		require.EqualValues(t, 3, started.Load(), "the era is remembered")
	})
}

// TestEra_discover_spoils_initialize: supergateway initializes the server behind it at
// the first message, whatever that is, and refuses the initialize that follows.
func TestEra_discover_spoils_initialize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, started := newServerDialer(t, mcpvisor.EraAuto, func(ctx context.Context, stdin io.ReadCloser, stdout io.WriteCloser, stderr io.Writer) error {
			discovered := false
			return replyServer(func(_ io.Writer, e jsonrpc.Envelope) string {
				message := transporttest.LegacyAnswer
				switch {
				case string(e.Method) == `"server/discover"`:
					discovered, message = true, transporttest.UnknownMethod
				case string(e.Method) == `"initialize"` && discovered:
					message = `"error":{"code":-32600,"message":"already initialized"}`
				}
				return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, e.ID, message)
			})(ctx, stdin, stdout, stderr)
		})
		era, cause := openOnce(t, d)
		require.Nil(t, cause)
		require.Equal(t, mcpvisor.EraLegacy, era)
		require.EqualValues(t, 2, started.Load())
		_, cause = openOnce(t, d)
		require.Nil(t, cause)
		require.EqualValues(t, 3, started.Load(), "the legacy era is remembered")
	})
}

// TestEra_version_failure_is_permanent_only_after_a_refusal: when a server refuses the
// legacy version, the failure is permanent only if the server has also refused the
// modern one.
func TestEra_version_failure_is_permanent_only_after_a_refusal(t *testing.T) {
	for name, c := range map[string]struct {
		era       mcpvisor.Era
		discover  string
		delay     time.Duration
		permanent bool
	}{
		"never answered":    {mcpvisor.EraAuto, "", 0, false},
		"answered too late": {mcpvisor.EraAuto, transporttest.ModernAnswer, time.Hour, false},
		"refused":           {mcpvisor.EraAuto, transporttest.UnknownMethod, 0, true},
		"refused late":      {mcpvisor.EraAuto, transporttest.UnknownMethod, defaults.NegotiateTimeout + evidenceTimeout/2, true},
		"era is fixed":      {mcpvisor.EraLegacy, transporttest.ModernAnswer, 0, true},
		"unknown version":   {mcpvisor.EraAuto, `"result":{"supportedVersions":["2099-01-01"],"capabilities":{}}`, 0, true},
	} {
		testutil.RunInBubble(t, name, func(t *testing.T) {
			d, _ := newServerDialer(t, c.era, eraServer(c.discover, unknownVersion, c.delay))
			_, cause := openOnce(t, d)
			require.NotNil(t, cause)
			require.Equal(t, supervisor.CauseVersion, cause.Kind)
			require.Equal(t, c.permanent, cause.Permanent)
		})
	}
}

// TestEra_changes_between_sessions: the era of one session is only a hint for the next
// one.
func TestEra_changes_between_sessions(t *testing.T) {
	modern, legacy := eraServer(transporttest.ModernAnswer, transporttest.UnknownMethod, 0), eraServer(transporttest.UnknownMethod, transporttest.LegacyAnswer, 0)
	for name, c := range map[string]struct {
		first, later transporttest.ServeFunc
		fails        int // the failed starts before one succeeds
		want         mcpvisor.Era
	}{
		"modern, then legacy":                      {modern, legacy, 0, mcpvisor.EraLegacy},
		"modern, then legacy and ignores the rest": {modern, eraServer("", transporttest.LegacyAnswer, 0), 0, mcpvisor.EraLegacy},
		"modern, then legacy and exits":            {modern, eraServer(exits, transporttest.LegacyAnswer, 0), maxProbeExits, mcpvisor.EraLegacy},
		"modern, then slow":                        {modern, eraServer(transporttest.ModernAnswer, transporttest.UnknownMethod, 20*time.Second), 0, mcpvisor.EraModern},
		"modern, then starts slowly":               {modern, afterDelay(20*time.Second, modern), 0, mcpvisor.EraModern},
		"legacy, then modern":                      {legacy, modern, 1, mcpvisor.EraModern},
		"legacy, then of another version":          {legacy, eraServer(transporttest.ModernAnswer, unknownVersion, 0), 1, mcpvisor.EraModern},
	} {
		testutil.RunInBubble(t, name, func(t *testing.T) {
			d, _ := newServerDialer(t, mcpvisor.EraAuto, c.first, c.later)
			_, cause := openOnce(t, d)
			require.Nil(t, cause)
			for range c.fails {
				_, cause = openOnce(t, d)
				require.NotNil(t, cause)
				require.False(t, cause.Permanent)
			}
			for range 2 {
				era, cause := openOnce(t, d)
				require.Nil(t, cause)
				require.Equal(t, c.want, era)
			}
		})
	}
}

// TestEra_kept_through_crashes: a modern server that exits on server/discover counts as
// crashed. Each attempt starts one process, and the era is kept.
func TestEra_kept_through_crashes(t *testing.T) {
	modern, crashes := eraServer(transporttest.ModernAnswer, transporttest.UnknownMethod, 0), eraServer(exits, transporttest.LegacyAnswer, 0)
	synctest.Test(t, func(t *testing.T) {
		d, started := newServerDialer(t, mcpvisor.EraAuto, modern, crashes, crashes, modern)
		_, cause := openOnce(t, d)
		require.Nil(t, cause)
		for try := range maxProbeExits {
			_, cause = openOnce(t, d)
			require.NotNil(t, cause)
			require.EqualValues(t, 2+try, started.Load(), "one process for each try")
		}
		era, cause := openOnce(t, d)
		require.Nil(t, cause)
		require.Equal(t, mcpvisor.EraModern, era)
		require.Zero(t, d.probeExits.Load())
	})
}

// TestEra_late_answer_is_remembered: a server of both eras that answers server/discover
// too late for one session is modern in the next.
func TestEra_late_answer_is_remembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		both := eraServer(transporttest.ModernAnswer, transporttest.LegacyAnswer, 0)
		d, _ := newServerDialer(t, mcpvisor.EraAuto, afterDelay(10*time.Second, both), both)
		for _, want := range []mcpvisor.Era{mcpvisor.EraLegacy, mcpvisor.EraModern} {
			era, cause := openOnce(t, d)
			require.Nil(t, cause)
			require.Equal(t, want, era)
			synctest.Wait()
		}
	})
}

// TestEra_answer_after_the_handshake: what a legacy session learns by a late answer to
// server/discover decides which era the next one tries first.
func TestEra_answer_after_the_handshake(t *testing.T) {
	for name, c := range map[string]struct {
		serve transporttest.ServeFunc
		want  mcpvisor.Era
	}{
		"result during the session":  {eraServer(transporttest.ModernAnswer, transporttest.LegacyAnswer, 30*time.Second), mcpvisor.EraModern},
		"refusal during the session": {eraServer(transporttest.UnknownMethod, transporttest.LegacyAnswer, 30*time.Second), mcpvisor.EraLegacy},
		"refusal with the handshake": {afterDelay(10*time.Second, eraServer(transporttest.UnknownMethod, transporttest.LegacyAnswer, 0)), mcpvisor.EraLegacy},
	} {
		testutil.RunInBubble(t, name, func(t *testing.T) {
			d, _ := newServerDialer(t, mcpvisor.EraAuto, c.serve)
			s := d.NewSession()
			require.NoError(t, s.Open(t.Context()))
			require.Equal(t, mcpvisor.EraLegacy, s.Info().Era)
			time.Sleep(time.Minute)
			next := d.era.Load()
			transporttest.EndSession(t, s)
			require.Equal(t, c.want, next)
		})
	}
}

// TestEra_fixed_to_modern: with a fixed era, the legacy one is never tried,
// server/discover has the whole start timeout, and exits do not change the era.
func TestEra_fixed_to_modern(t *testing.T) {
	for name, c := range map[string]struct {
		serve     transporttest.ServeFunc
		kind      supervisor.CauseKind // empty if the session opens
		permanent bool
	}{
		"slow":        {eraServer(transporttest.ModernAnswer, transporttest.UnknownMethod, 20*time.Second), "", false},
		"legacy":      {eraServer(transporttest.UnknownMethod, transporttest.LegacyAnswer, 0), supervisor.CauseVersion, true},
		"ends itself": {eraServer(exits, transporttest.LegacyAnswer, 0), supervisor.CauseExit, false},
	} {
		testutil.RunInBubble(t, name, func(t *testing.T) {
			d, started := newServerDialer(t, mcpvisor.EraModern, c.serve)
			for try := range maxProbeExits + 2 { // more exits than change the era without a fixed one
				era, cause := openOnce(t, d)
				require.EqualValues(t, 1+try, started.Load())
				if c.kind == "" {
					require.Nil(t, cause)
					require.Equal(t, mcpvisor.EraModern, era)
					continue
				}
				require.NotNil(t, cause)
				require.Equal(t, c.kind, cause.Kind)
				require.Equal(t, c.permanent, cause.Permanent)
			}
		})
	}
}

// TestEra_late_refusal_means_legacy: a server that refuses server/discover late is not
// modern, neither in this session nor in the next.
func TestEra_late_refusal_means_legacy(t *testing.T) {
	const late = defaults.NegotiateTimeout + evidenceTimeout/2
	synctest.Test(t, func(t *testing.T) {
		d, started := newServerDialer(t, mcpvisor.EraAuto, eraServer(transporttest.UnknownMethod, unknownVersion, late))
		_, cause := openOnce(t, d)
		require.NotNil(t, cause)
		require.EqualValues(t, 1, started.Load(), "the server is started once")
	})
	synctest.Test(t, func(t *testing.T) {
		d, _ := newServerDialer(t, mcpvisor.EraAuto, eraServer(transporttest.UnknownMethod, transporttest.LegacyAnswer, late))
		s := d.NewSession()
		require.NoError(t, s.Open(t.Context()))
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, mcpvisor.EraLegacy, d.era.Load())
		transporttest.EndSession(t, s)
	})
}

// TestHandshake_unusable_responses_fail_their_request: a response that cannot be
// used fails the request with its id. A log line with the same id does not.
func TestHandshake_unusable_responses_fail_their_request(t *testing.T) {
	p := newPeer(t, osPipe, 1000)
	for i, line := range []string{`{"jsonrpc":"2.0","id":%d}`, `{"jsonrpc":"2.0","id":%d,"error":null}`,
		`{"jsonrpc":"2.0","id":%d,"result":"` + strings.Repeat("long", 1000) + `"}`} {
		id := int64(3 + i)
		answered := p.callOfSDK(id)
		p.writeLine(`{"id":%d,"level":"info"}`, id) // a log line
		p.writeLine(line, 9)                        // an id without a request
		p.writeLine(line, id)
		p.writeLine(line, id) // the request has its response already
		r := <-answered
		require.Equal(t, id, r.ID.Raw())
		require.ErrorContains(t, r.Error, []string{"neither a result nor an error", "neither a result nor an error", "longer than 1000 bytes"}[i])
	}
	require.Eventually(t, func() bool { return p.discarded.Counts() == mcpvisor.Discarded{Malformed: 7, Oversize: 3} }, transporttest.Patience, transporttest.TimeStep)
}

// TestHandshake_response_is_copied: lines that are read later do not overwrite a response.
func TestHandshake_response_is_copied(t *testing.T) {
	p := newPeer(t, osPipe, 1<<20)
	want := `{"a":"` + strings.Repeat("a", 3000) + `"}`
	answered := p.callOfSDK(1)
	p.writeLine(`{"id":1,"result":%s}`, want) // the member "jsonrpc" is missing
	const lines = 2 * jsonrpc.ReadBufferSize / 100
	for range lines {
		p.writeLine("%s", strings.Repeat("X", 100))
	}
	require.Eventually(t, func() bool { return p.discarded.Counts().Malformed == lines }, transporttest.Patience, transporttest.TimeStep)
	require.JSONEq(t, want, string((<-answered).Result))
}

// TestHandshake_accepts_ids_as_strings: some servers return numeric ids as strings.
func TestHandshake_accepts_ids_as_strings(t *testing.T) {
	p := newPeer(t, osPipe, 1<<20)
	unmatched := uint64(0)
	for _, id := range []string{`3`, `"3"`, `3.0`, `"3.0"`} {
		for _, message := range []string{`{"jsonrpc":"2.0","id":%s,"result":{}}`, `{"id":%s,"result":{}}`, `{"jsonrpc":"2.0","id":%s,"error":{"code":1,"message":"m"}}`,
			`{"id":%s,"error":{"code":1,"message":"m"}}`} {
			answered := p.callOfSDK(3)
			p.writeLine(message, id)
			p.writeLine(message, id) // unmatched: the request has its response already
			r := <-answered
			require.Equal(t, int64(3), r.ID.Raw())
			if strings.Contains(message, "error") {
				require.ErrorContains(t, r.Error, "m")
			} else {
				require.NoError(t, r.Error)
			}
			unmatched++
			require.Eventually(t, func() bool { return p.discarded.Counts().Unmatched == unmatched }, transporttest.Patience, transporttest.TimeStep)
		}
	}
	p.writeLine(`{"jsonrpc":"2.0","id":"3","method":"ping"}`)
	require.Equal(t, `"3"`, string(p.readRefusal().ID), "a request has the id that its answer must have")
}

// TestHandshake_unanswered: a request of the handshake that is never answered is no call. Neither
// does it use up the requests that a server may send, nor is it listed.
func TestHandshake_unanswered(t *testing.T) {
	p := newPeer(t, osPipe, 1<<20)
	p.callOfSDK(1)
	for range 2 * jsonrpc.MaxRequestsPerCall {
		require.True(t, p.table.CountRequest(0))
	}
	require.Empty(t, p.table.InFlight())
}
