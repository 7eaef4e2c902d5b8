package hostcall

import (
	"context"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// A panic in a dial function is its error: net/http calls it in a goroutine of its own. The
// deprecated functions are used only where the others are not set, as in net/http.
func TestDialFuncs(t *testing.T) {
	panics := func(context.Context, string, string) (net.Conn, error) { panic("boom") }
	deprecated := func(string, string) (net.Conn, error) { return nil, errPlain }
	for name, row := range map[string]struct {
		transport     *http.Transport
		dial, dialTLS string // the error; "": no function
	}{
		"none":       {transport: &http.Transport{}},
		"both":       {&http.Transport{DialContext: panics, DialTLSContext: panics}, "dial function panicked: boom", "dial function panicked: boom"},
		"deprecated": {&http.Transport{Dial: deprecated, DialTLS: deprecated}, "plain", "plain"}, //nolint:staticcheck // hosts still set them
		"preferred":  {&http.Transport{Dial: deprecated, DialContext: panics}, "panicked", ""},   //nolint:staticcheck // hosts still set it
	} {
		t.Run(name, func(t *testing.T) {
			own := row.transport.Clone()
			dial, dialTLS := DialFuncs(own)
			for want, got := range map[*string]DialFunc{&row.dial: dial, &row.dialTLS: dialTLS} {
				if require.Equal(t, *want == "", got == nil); got != nil {
					_, err := got(t.Context(), "tcp", "h:1")
					require.ErrorContains(t, err, *want)
				}
			}
			require.Nil(t, own.Dial)    //nolint:staticcheck // the functions that are returned call it
			require.Nil(t, own.DialTLS) //nolint:staticcheck // the functions that are returned call it
		})
	}
}
