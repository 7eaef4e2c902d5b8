package hostcall

import (
	"context"
	"net"
	"net/http"
)

// DialFunc makes a connection.
type DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

// DialFuncs returns the dial functions of a transport of the host; nil where it has none. A
// panic in them is their error. t is a clone that belongs to the caller: its deprecated Dial
// and DialTLS are removed, because the functions that are returned call them.
func DialFuncs(t *http.Transport) (dial, dialTLS DialFunc) {
	dial = dialFunc(t.DialContext, t.Dial)          //nolint:staticcheck // net/http still calls Dial
	dialTLS = dialFunc(t.DialTLSContext, t.DialTLS) //nolint:staticcheck // net/http still calls DialTLS
	t.Dial, t.DialTLS = nil, nil                    //nolint:staticcheck // see above
	return dial, dialTLS
}

func dialFunc(dial DialFunc, deprecated func(network, addr string) (net.Conn, error)) DialFunc {
	switch {
	case dial == nil && deprecated == nil:
		return nil
	case dial == nil:
		dial = func(_ context.Context, network, addr string) (net.Conn, error) { return deprecated(network, addr) }
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		return Value("dial function", func() (net.Conn, error) { return dial(ctx, network, addr) })
	}
}
