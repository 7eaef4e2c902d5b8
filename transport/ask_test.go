package transport

import (
	"context"
	"errors"
	"io"
	"runtime"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

func newResponder() *Handler {
	return NewHandlerPool("s", Options{Handlers: Handlers{ElicitForm: atOnce}, Logger: zerolog.Nop()}).NewHandler(NewLifetime())
}

// What a handler does to itself costs its one question.
func TestHandlersThatReturnNothing(t *testing.T) {
	for name, handler := range map[string]func(context.Context) (*int, error){
		"nothing":  func(context.Context) (*int, error) { return nil, nil },
		"goes":     func(context.Context) (*int, error) { runtime.Goexit(); return nil, nil },
		"panics":   func(context.Context) (*int, error) { panic("of the host") },
		"an error": func(context.Context) (*int, error) { return nil, errByHost },
	} {
		t.Run(name, func(t *testing.T) {
			a := newResponder()
			res, err := runHandler(t.Context(), a, methodSample, handler)
			require.Nil(t, res)
			require.ErrorIs(t, err, errNoAnswer)
			require.Equal(t, errNoAnswer.Message, err.Error(), "the rest is none of the server's business")
			require.Eventually(t, func() bool { return len(a.slots) == 0 }, patience, timeStep)
		})
	}
}

// Whoever waits for an answer hears of the session's end, and so does the handler,
// whatever becomes of the request's own context.
func TestAHandlerHearsOfTheDeath(t *testing.T) {
	a := newResponder()
	cause := make(chan error, 1)
	began := make(chan struct{})
	failed := make(chan error, 1)
	go func() {
		_, err := runHandler(t.Context(), a, methodElicit, func(ctx context.Context) (*int, error) {
			close(began)
			<-ctx.Done()
			cause <- context.Cause(ctx)
			return nil, ctx.Err()
		})
		failed <- err
	}()
	<-began
	a.lifetime.End(errGivenUp)
	require.ErrorIs(t, <-cause, errGivenUp)
	require.ErrorIs(t, <-failed, errNoAnswer)
}

// What is asked beside a question that fails is taken back.
func TestOneFailureEndsTheOthers(t *testing.T) {
	a := newResponder()
	ended := make(chan struct{})
	a.next = func(ctx context.Context, _ string, _ mcp.Request) (mcp.Result, error) {
		<-ctx.Done()
		close(ended)
		return nil, errors.New("too late")
	}
	_, err := a.gatherInput(t.Context(), []inputRequest{
		{key: "f", method: methodElicit, params: []byte(`{"message":"?"}`)}, {key: "g", method: "tools/list"}})
	require.ErrorContains(t, err, "which clients do not have")
	requireClosed(t, ended, "somebody is still asked")
}

// A pause before the next round ends with the call, and with the session.
func TestPutOffIsNoDetention(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		began := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		newResponder().pauseBeforeRound(ctx, 1)
		a := newResponder()
		a.lifetime.End(errGivenUp)
		a.pauseBeforeRound(t.Context(), 1)
		require.Zero(t, time.Since(began))
	})
}

// A server that wants something in between has not put the request off all the
// while.
func TestPuttingOffBeginsAnew(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPartner(t, true)
		s := p.open(Handlers{ElicitForm: atOnce})
		defer endSession(t, s)
		later := `{"resultType":"input_required","requestState":"later"}`
		answered := make(chan error, 1)
		go func() { _, err := s.Request(t.Context(), toolCall); answered <- err }()
		for _, result := range []string{later, later, later, oneLineOf(wantsForm), later, later, isDone} {
			p.say(`{"jsonrpc":"2.0","id":%s,"result":%s}`, p.next("tools/call").ID, result)
		}
		require.NoError(t, <-answered)
	})
}

// TestRootsThatChangeInTheHandshake: what the server may have asked for by then is
// old.
func TestRootsThatChangeInTheHandshake(t *testing.T) {
	roots := NewRoots(nil)
	told := make(chan struct{}, 1)
	d, err := NewDialer(mcpvisor.ServerSpec{Name: "m", InMemory: &mcpvisor.InMemory{Serve: answering(func(_ io.Writer, e Envelope) string {
		switch string(e.Method) {
		case `"initialize"`:
			roots.Set(nil)
			return `{"jsonrpc":"2.0","id":` + string(e.ID) + `,` + isLegacyServer + `}`
		case `"notifications/roots/list_changed"`:
			told <- struct{}{}
		}
		return `{"jsonrpc":"2.0","id":` + string(e.ID) + `,` + unknownMethod + `}`
	})}}, Options{ClientInfo: testInfo, Handlers: Handlers{Roots: roots}, Logger: zerolog.Nop()})
	require.NoError(t, err)
	s := d.NewSession()
	releaseAtEnd(t, s)
	require.NoError(t, s.Open(t.Context()))
	select {
	case <-told:
	case <-time.After(patience):
		require.Fail(t, "it is not told")
	}
}

// TestMemoryServerThatStaysIsLeftBehind: it minds neither its stdin nor its
// context, and holds up nobody.
func TestMemoryServerThatStaysIsLeftBehind(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		leave := make(chan struct{})
		defer close(leave)
		legacy := legacyServer(nil)
		d, _ := lives(t, mcpvisor.EraLegacy, func(ctx context.Context, stdin io.ReadCloser, stdout io.WriteCloser, stderr io.Writer) error {
			err := legacy(ctx, stdin, stdout, stderr)
			<-leave
			return err
		})
		s := d.NewSession()
		require.NoError(t, s.Open(t.Context()))
		began := time.Now()
		s.Abort(&supervisor.Cause{Kind: supervisor.CauseRequested, Message: "enough"})
		<-s.Released()
		require.LessOrEqual(t, time.Since(began), mcpvisor.DefaultShutdownTimeout)
	})
}

// The list is the host's, and what it does with its slice afterwards is its own
// affair.
func TestRootsAreACopy(t *testing.T) {
	mine := []*mcp.Root{{URI: "file:///a"}}
	roots := NewRoots(mine)
	roots.Set(mine)
	mine[0] = nil
	list, _ := roots.Current()
	require.Equal(t, "file:///a", list[0].URI)
}

// The log level of a request is a word of the modern era.
func TestALegacyRequestHasNoLogLevel(t *testing.T) {
	for _, track := range []bool{false, true} {
		line := AppendRequest(nil, 7, Request{Method: "m", LogLevel: "debug", Track: track}, nil)
		require.NotContains(t, string(line), "debug")
	}
}
