package actors

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/canonical"
	"github.com/mcpvisor/mcpvisor/internal/catalog"
	"github.com/mcpvisor/mcpvisor/internal/encodedlists"
	"github.com/mcpvisor/mcpvisor/internal/hostcall"
	"github.com/mcpvisor/mcpvisor/internal/secret"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/discovery"
)

// keptOffer answers the lists of a server that does not run.
type keptOffer struct {
	transport.Session // nil: only the methods below are called
	body              *encodedlists.Body
}

func (k keptOffer) Info() mcpvisor.SessionInfo                    { return k.body.Info() }
func (k keptOffer) Cause() *supervisor.Cause                      { return nil }
func (k keptOffer) CheckInputSchema(json.RawMessage) (int, error) { return 0, nil }
func (k keptOffer) UseTools([]mcpvisor.Tool, bool)                {}
func (k keptOffer) ToolSettings() map[string]mcpvisor.ToolSetting { return nil } // the lists are as they were offered
func (k keptOffer) Request(_ context.Context, r transport.Request) (json.RawMessage, error) {
	if result, ok := k.body.Answer(r.Method, r.Params); ok {
		return result, nil
	}
	return nil, fmt.Errorf("%s is not kept", r.Method)
}

// ReadLists reads what a server offered, as it would be read from the server.
func (rt *Runtime) ReadLists(spec *mcpvisor.ServerSpec, body *encodedlists.Body) (*catalog.Catalog, error) {
	found, err := discovery.Discover(context.Background(), keptOffer{body: body}, spec.Name, spec.WithDefaults().Limits)
	if err != nil {
		return nil, err
	}
	found = rt.offered(spec, found, body.Info().Instructions, catalog.AllLists)
	found.Instructions = listedInstructions(found, body.Info().Instructions)
	return found, nil
}

// offered returns what of the lists of a server is listed: what its guard and its filter of tools let pass. read are the
// lists that found has. Each catalog passes here before it is published.
func (rt *Runtime) offered(spec *mcpvisor.ServerSpec, found *catalog.Catalog, instructions string, read catalog.Lists) *catalog.Catalog {
	if guard := rt.opts.Guard; guard != nil {
		found = found.Guarded(func(offer mcpvisor.Offer) ([]mcpvisor.Finding, error) {
			offer = withoutSecrets(spec, offer)
			return hostcall.Value("CatalogGuard", func() ([]mcpvisor.Finding, error) { return guard.Check(spec.Name, offer), nil })
		}, instructions, read)
	}
	if read&catalog.ListTools == 0 {
		return found
	}
	return found.Offered(spec.Tools)
}

// withoutSecrets returns an offer in which the secrets of the server are masked: a guard may keep it where they do not belong,
// and a secret that changes does not change the offer.
func withoutSecrets(spec *mcpvisor.ServerSpec, offer mcpvisor.Offer) mcpvisor.Offer {
	var secrets secret.List
	secrets.Add(spec.Secrets...)
	if spec.Stdio != nil {
		secrets.AddProcess(spec.Stdio.Env, spec.Stdio.Args)
	}
	if spec.HTTP != nil {
		secrets.AddRemote(spec.HTTP.URL, spec.HTTP.Headers)
	}
	if secrets.Empty() {
		return offer
	}
	mask := secrets.Replacer().Replace
	offer.Instructions = mask(offer.Instructions)
	for _, list := range [][]mcpvisor.OfferEntry{offer.Tools, offer.Prompts, offer.Templates} { // made for the guard
		for i := range list {
			list[i].Raw = canonical.Masked(mask, list[i].Raw)
		}
	}
	return offer
}

// listedInstructions returns the instructions of a session, unless a guard withholds them.
func listedInstructions(c *catalog.Catalog, instructions string) string {
	if c.NoInstructions {
		return ""
	}
	return instructions
}
