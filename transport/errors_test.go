package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/test/testutil"
)

// An internal error may be temporary; an unknown method is not.
func TestUnsupported(t *testing.T) {
	for code, want := range map[int64]bool{sdkrpc.CodeMethodNotFound: true, sdkrpc.CodeInvalidParams: true, sdkrpc.CodeInternalError: false} {
		require.Equal(t, want, Unsupported(rpcFault(code)), code)
	}
}

// A kept error holds no more than its bounds, however it is wrapped, and is found as before.
func TestKeptError_large(t *testing.T) {
	large := strings.Repeat("x", 1<<20)
	rpc := func() *sdkrpc.Error {
		return &sdkrpc.Error{Code: 7, Message: "no", Data: json.RawMessage(`"` + large + `"`)}
	}
	for name, err := range map[string]error{
		"rpc":     rpc(),
		"message": &sdkrpc.Error{Code: 7, Message: large},
		"wrapped": fmt.Errorf("calling: %w", rpc()),
		"joined":  errors.Join(errors.New("first"), fmt.Errorf("calling: %w", rpc())),
		"error":   &mcpvisor.Error{Kind: mcpvisor.ErrRPC, Cause: rpc()},
		"cause":   &supervisor.Cause{Kind: supervisor.CauseHandshake, Message: large, Err: rpc()},
		"deep":    fmt.Errorf("a: %w", &mcpvisor.Error{Kind: mcpvisor.ErrRPC, Cause: fmt.Errorf("b: %w", &supervisor.Cause{Err: rpc()})}),
		"text":    fmt.Errorf("%s: %w", large, rpc()),
	} {
		kept := KeptError(err)
		require.LessOrEqual(t, len(kept.Error()), MaxErrorText, name)
		if name != "cause" {
			require.Equal(t, err.Error()[:min(2, len(err.Error()))], kept.Error()[:min(2, len(kept.Error()))], name)
		}
		var found *sdkrpc.Error
		require.ErrorAs(t, kept, &found, name)
		require.Equal(t, int64(7), found.Code, name)
		require.Empty(t, found.Data, name)
		require.LessOrEqual(t, len(found.Message), MaxErrorText, name)
		if name == "error" || name == "deep" {
			require.ErrorIs(t, kept, mcpvisor.ErrRPC, name)
		}
		require.Same(t, asRPC(KeptError(kept)), found, "%s: a kept error stays", name)
		require.NotEqual(t, 0, len(asRPC(err).Data)+len(asRPC(err).Message), "the error of the caller is not changed")
	}
	kept := KeptError(errors.New(large))
	require.Len(t, kept.Error(), MaxErrorText)
	many := make([]error, 1000)
	for i := range many {
		many[i] = errors.New(large[:1000])
	}
	require.Len(t, KeptError(errors.Join(many...)).Error(), MaxErrorText)
}

func asRPC(err error) (rpc *sdkrpc.Error) {
	errors.As(err, &rpc)
	return rpc
}

// A small error stays itself, with its data.
func TestKeptError_small(t *testing.T) {
	require.NoError(t, KeptError(nil))
	require.Nil(t, KeptCause(nil))
	require.Equal(t, error((*mcpvisor.Error)(nil)), KeptError((*mcpvisor.Error)(nil)))
	for _, err := range []error{
		fs.ErrNotExist, context.Canceled, uncomparable{1},
		&sdkrpc.Error{Code: 7, Message: "no", Data: json.RawMessage(`{"supported":["2025-11-25"]}`)},
		fmt.Errorf("open: %w", fs.ErrNotExist),
		fmt.Errorf("open: %w", uncomparable{1}),
		&mcpvisor.Error{Kind: mcpvisor.ErrRPC, Cause: fs.ErrNotExist},
	} {
		require.Equal(t, err, KeptError(err))
	}
	cause := &supervisor.Cause{Message: "no", Err: fs.ErrNotExist}
	require.Same(t, cause, KeptCause(cause))
}

// uncomparable is an error that cannot be compared.
type uncomparable []int

func (uncomparable) Error() string { return "uncomparable" }

// Certificates of a peer are not kept; the kinds of the errors are.
func TestKeptError_certificates(t *testing.T) {
	cert := &x509.Certificate{Raw: make([]byte, 1<<20), DNSNames: []string{"a.example"}}
	verify := KeptError(fmt.Errorf("dial: %w", &tls.CertificateVerificationError{UnverifiedCertificates: []*x509.Certificate{cert},
		Err: x509.UnknownAuthorityError{Cert: cert}}))
	require.EqualError(t, verify, "dial: tls: failed to verify certificate: x509: certificate signed by unknown authority")
	outer := testutil.AsError[*tls.CertificateVerificationError](t, verify)
	require.Empty(t, outer.UnverifiedCertificates)
	var unknown x509.UnknownAuthorityError
	require.ErrorAs(t, verify, &unknown)
	require.Nil(t, unknown.Cert)

	var invalid x509.CertificateInvalidError
	require.ErrorAs(t, KeptError(x509.CertificateInvalidError{Cert: cert, Reason: x509.Expired}), &invalid)
	require.Nil(t, invalid.Cert)
	require.Equal(t, x509.Expired, invalid.Reason)
	long := strings.Repeat("a", 2*MaxErrorText)
	require.ErrorAs(t, KeptError(x509.CertificateInvalidError{Cert: cert, Reason: x509.NameConstraintsWithoutSANs, Detail: long}), &invalid)
	require.LessOrEqual(t, len(invalid.Detail), MaxErrorText)
	require.ErrorContains(t, KeptError(x509.HostnameError{Certificate: cert, Host: "b.example"}), "a.example")
}

// The kind of the error follows from the cause.
func TestDeathError(t *testing.T) {
	for cause, kind := range map[supervisor.CauseKind]mcpvisor.ErrorKind{
		supervisor.CauseExit: mcpvisor.ErrCrashed, supervisor.CauseSignal: mcpvisor.ErrCrashed, supervisor.CauseProbe: mcpvisor.ErrCrashed,
		supervisor.CauseRequested: mcpvisor.ErrClosed, supervisor.CauseRestart: mcpvisor.ErrEnded, supervisor.CauseMoved: mcpvisor.ErrEnded, supervisor.CauseFenced: mcpvisor.ErrEnded, supervisor.CauseAuth: mcpvisor.ErrAuthRequired,
	} {
		e := DeathError(&supervisor.Cause{Kind: cause}, mcpvisor.OutcomeNotSent)
		require.Equal(t, kind, e.Kind, cause)
		require.Equal(t, mcpvisor.OutcomeNotSent, e.Outcome)
	}
}

// An answer, also an error, proves that the server is alive. Other outcomes do not.
func TestProbe(t *testing.T) {
	for _, c := range []struct {
		err   error
		alive bool
	}{
		{nil, true},
		{rpcFault(sdkrpc.CodeMethodNotFound), true},
		{&mcpvisor.Error{Kind: mcpvisor.ErrRPC, Outcome: mcpvisor.OutcomeUnknown}, true}, // an error without an id
		{&mcpvisor.Error{Kind: mcpvisor.ErrTimeout, Outcome: mcpvisor.OutcomeUnknown}, false},
		{&mcpvisor.Error{Kind: mcpvisor.ErrUnavailable, Outcome: mcpvisor.OutcomeNotSent}, false},
	} {
		l := &probedSession{err: c.err}
		require.Equal(t, c.alive, Probe(t.Context(), l) == nil, "%v", c.err)
		require.Equal(t, []string{"ping"}, l.methods)
	}
}

// probedSession answers each request with an error.
type probedSession struct {
	Session
	err     error
	methods []string // methods
}

func (s *probedSession) Info() mcpvisor.SessionInfo { return mcpvisor.SessionInfo{} }

func (s *probedSession) Request(_ context.Context, r Request) (json.RawMessage, error) {
	s.methods = append(s.methods, r.Method)
	return json.RawMessage(`{}`), s.err
}

// rpcFault is the error of a request that the server answered with a JSON-RPC error.
func rpcFault(code int64) error {
	return &mcpvisor.Error{Kind: mcpvisor.ErrRPC, Outcome: mcpvisor.OutcomeAnswered, Cause: &sdkrpc.Error{Code: code, Message: "refused"}}
}

// The host may change its slice after Set.
func TestRoots_Set_copies_the_list(t *testing.T) {
	mine := []*mcp.Root{{URI: "file:///a"}}
	roots := NewRoots(mine)
	roots.Set(mine)
	mine[0] = nil
	list, _ := roots.Current()
	require.Equal(t, "file:///a", list[0].URI)
}

// A change between Current and Follow is not missed.
func TestRoots_Follow(t *testing.T) {
	roots := NewRoots(nil)
	_, since := roots.Current()
	roots.Set(nil)
	calls := 0
	unfollow := roots.Follow(since, func() { calls++ })
	require.Equal(t, 1, calls)
	roots.Set(nil)
	require.Equal(t, 2, calls)
	unfollow()
	roots.Set(nil)
	require.Equal(t, 2, calls)
}
