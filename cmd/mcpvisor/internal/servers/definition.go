package servers

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"

	"github.com/zalando/go-keyring"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/websocket"
	"github.com/mcpvisor/mcpvisor/config"
)

// LoadForNodes reads configuration files for other machines: what they refer to need not exist
// here. A variable that is set here has its value, and everything else a stand-in.
func LoadForNodes(paths []string) (*config.File, error) {
	return config.LoadFiles(paths, websocket.Option,
		config.WithLookup(func(name string) (string, bool) {
			if value, set := os.LookupEnv(name); set && value != "" {
				return value, true
			}
			for _, part := range []string{"URL", "URI", "ENDPOINT"} {
				if strings.Contains(strings.ToUpper(name), part) {
					return "https://stand-in.invalid/", true
				}
			}
			return "stand-in", true
		}),
		config.WithFiles(func(string) (string, error) { return "stand-in", nil }),
		config.WithKeyring(func(string, string) (string, error) { return "stand-in", nil }))
}

// nodeKeyring is the keyring of this machine for a node of a fleet, which must not wait for it: the
// goroutine that resolves definitions renews the lease, too.
var nodeKeyring = quickKeyring{get: keyring.Get, wait: time.Second, pause: time.Minute}

// quickKeyring gives a look-up little time, and asks a keyring that has not answered only after a
// pause. Safe for concurrent use.
type quickKeyring struct {
	get         func(service, account string) (string, error)
	wait, pause time.Duration
	silent      atomic.Int64 // since when it has not answered, in nanoseconds of Unix time; 0: it answers
}

func (k *quickKeyring) lookUp(service, account string) (string, error) {
	if since := k.silent.Load(); since != 0 && time.Since(time.Unix(0, since)) < k.pause {
		return "", errSilentKeyring
	}
	value, err := lookUpIn(service, account, k.get, time.After(k.wait))
	if errors.Is(err, errNoAnswer) {
		k.silent.Store(time.Now().UnixNano())
		err = errSilentKeyring
	}
	return value, err
}

var (
	errSilentKeyring = errors.New("the keyring has not answered lately; unlock it, or use ${VAR} or ${file:…}")
	errNoAnswer      = fmt.Errorf("the keyring has not answered for %v; unlock it, or use ${VAR} or ${file:…}", keyringTimeout)
)

// NodeOptions are those by which a node of a fleet reads the definition of a server: with the keyring of this machine.
var NodeOptions = []config.Option{websocket.Option, config.WithKeyring(nodeKeyring.lookUp)}

// GatewayOfFleet reads what the gateways of a fleet offer, as a configuration file says it: its "gateway",
// nil without one, and "on_down" of the definitions, by name. Nothing else of them is read, so it does not
// matter whether this machine could run them.
func GatewayOfFleet(gateway json.RawMessage, definitions map[string]json.RawMessage) (*config.File, error) {
	entries := map[string]any{}
	for name, definition := range definitions {
		var keys map[string]json.RawMessage
		if json.Unmarshal(definition, &keys) != nil {
			continue
		}
		for _, key := range []string{"on_down", "onDown"} {
			if value, ok := keys[key]; ok {
				entries[name] = map[string]any{"command": "not-read", key: value}
			}
		}
	}
	top := map[string]any{"mcpServers": entries}
	if gateway != nil {
		top["gateway"] = gateway
	}
	text, err := json.Marshal(top)
	if err != nil {
		return nil, errors.New("it is not JSON")
	}
	return config.Parse(text, "of the fleet")
}

// keyringTimeout bounds one look-up. A locked keyring asks the user for a password meanwhile.
const keyringTimeout = time.Minute

// lookUpSecret returns one entry of the keyring of the operating system, for
// ${keyring:service/account} of configuration files: the Keychain of macOS, the Credential
// Manager of Windows, or a Secret Service on D-Bus. Its errors say what to do, and hold no value.
// A look-up that was given up continues until the keyring answers.
func lookUpSecret(service, account string) (string, error) {
	return lookUpIn(service, account, keyring.Get, time.After(keyringTimeout))
}

func lookUpIn(service, account string, get func(service, account string) (string, error), expired <-chan time.Time) (string, error) {
	type result struct {
		value string
		err   error
	}
	done := make(chan result, 1) // has room, so the goroutine ends without a receiver
	go func() {
		value, err := get(service, account)
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		switch {
		case errors.Is(r.err, keyring.ErrNotFound):
			return "", errors.New("the keyring has no such entry; store it there, or correct the name")
		case errors.Is(r.err, exec.ErrNotFound):
			return "", fmt.Errorf("there is no keyring on this machine; use ${VAR} or ${file:…}: %w", r.err)
		case r.err != nil:
			return "", fmt.Errorf("the keyring cannot be used; unlock it, or use ${VAR} or ${file:…}: %w", r.err)
		}
		return r.value, nil
	case <-expired:
		return "", errNoAnswer
	}
}
