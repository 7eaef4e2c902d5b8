package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/secret"
	"github.com/mcpvisor/mcpvisor/oauth/internal/jwt"
	"github.com/mcpvisor/mcpvisor/oauth/internal/metadata"
)

// maxRenewals bounds how often one request is repeated with another token. The token may
// be refreshed, replaced, and extended by scopes, once each.
const maxRenewals = 3

// errUseNonce is the error code with which both servers demand a nonce in the proof (RFC
// 9449, sections 8 and 9).
const errUseNonce = "use_dpop_nonce"

// maxNonceBytes bounds the nonces that are kept.
const maxNonceBytes = 1 << 10

// credential is how a request presents an access token. It implements mcpvisor.Credential.
type credential struct {
	token string       // empty: none
	key   *jwt.DPoPKey // nil: a bearer token
	nonce string       // for the proof; empty: none
	// demanded: the server demanded the nonce for this request.
	demanded bool
	// renewals is how many tokens were obtained for this request, because the server refused
	// the one before.
	renewals int
}

// Credential implements mcpvisor.Authorizer: it returns how to present the result of token.
func (a *authorizer) Credential(ctx context.Context) (mcpvisor.Credential, error) {
	return a.renewedCredential(ctx, 0)
}

// renewedCredential returns the credential for a request after this number of renewals.
func (a *authorizer) renewedCredential(ctx context.Context, renewals int) (mcpvisor.Credential, error) {
	token, err := a.token(ctx)
	if err != nil {
		return nil, err
	}
	c := a.credentialOf(token)
	c.renewals = renewals
	return c, nil
}

// Current implements mcpvisor.Authorizer.
func (a *authorizer) Current() mcpvisor.Credential { return a.credentialOf(a.accessToken()) }

// credentialOf returns how to present an access token.
func (a *authorizer) credentialOf(token string) *credential {
	a.mu.Lock()
	defer a.mu.Unlock()
	return &credential{token: token, key: a.dpop, nonce: a.serverNonce}
}

// SetHeaders implements mcpvisor.Credential. Each call makes another proof.
func (c *credential) SetHeaders(header http.Header, method string, target *url.URL, body []byte) error {
	switch {
	case c.token == "":
		return nil
	case c.key == nil:
		header["Authorization"] = []string{"Bearer " + c.token}
		return nil
	}
	proof, err := c.key.Proof(method, target, c.token, c.nonce, body)
	if err != nil {
		return err
	}
	header["Authorization"] = []string{"DPoP " + c.token} // RFC 9449, section 7.1
	header["Dpop"] = []string{proof}                      // the canonical form of DPoP
	return nil
}

// Answered implements mcpvisor.Authorizer. It gets another token for a request that was
// refused with 401, or with 403 and insufficient_scope, and the nonce that the server demands
// in the proof of the token (RFC 9449, section 9).
func (a *authorizer) Answered(ctx context.Context, used mcpvisor.Credential, status int, h http.Header) (mcpvisor.Credential, error) {
	c, ok := used.(*credential)
	switch {
	case !ok:
		return nil, fmt.Errorf("a credential of type %T belongs to another authorizer", used)
	case c.isNonceDemanded(status, h):
		return c.withNonce(h)
	}
	a.noteNonce(c, h)
	if status != http.StatusUnauthorized && !isInsufficientScope(status, h) || c.renewals == maxRenewals {
		return nil, nil //nolint:nilnil // the interface requires it: the answer counts
	}
	if err := a.renewRefused(ctx, c.token, c.renewals > 0, status, h); err != nil {
		return nil, err
	}
	return a.renewedCredential(ctx, c.renewals+1)
}

// isInsufficientScope reports whether an answer says that the token is valid and lacks
// scopes (RFC 6750, section 3.1). A step-up authorization can help.
func isInsufficientScope(status int, h http.Header) bool {
	return status == http.StatusForbidden && metadata.ParseChallenge(h).Code == metadata.CodeInsufficientScope
}

// isNonceDemanded reports whether the server refused a request because its proof has no nonce,
// or an old one. The token is not the reason.
func (c *credential) isNonceDemanded(status int, h http.Header) bool {
	return c.key != nil && c.token != "" && status == http.StatusUnauthorized && metadata.ParseChallenge(h).Code == errUseNonce
}

// withNonce returns the credential with the nonce that a response demands. It fails if the
// response has no nonce, or the one that was used, or if it is the second in a row.
func (c *credential) withNonce(h http.Header) (mcpvisor.Credential, error) {
	nonce := nonceOf(h)
	if c.demanded || nonce == "" || nonce == c.nonce {
		return nil, &mcpvisor.AuthUnavailable{Hint: "look at the server's log",
			Err: errors.New("the server refuses each DPoP proof, and demands another nonce")}
	}
	next := *c
	next.nonce, next.demanded = nonce, true
	return &next, nil
}

// noteNonce keeps a nonce for later requests, after a request that was not refused for its
// own: the nonce of the response, else the one that was demanded. A demanded nonce is not
// kept before its request has used it, because it may be good for one request only.
func (a *authorizer) noteNonce(c *credential, h http.Header) {
	if c.key == nil || c.token == "" {
		return
	}
	nonce := nonceOf(h)
	if nonce == "" && c.demanded {
		nonce = c.nonce
	}
	if nonce != "" {
		a.mu.Lock()
		a.serverNonce = nonce
		a.mu.Unlock()
	}
}

// proofKey returns the key for the tokens of a new grant: that of the current tokens, or a
// new one. It returns nil if the grant gets bearer tokens.
func (a *authorizer) proofKey(d *metadata.Discovery, c metadata.Challenge) (*jwt.DPoPKey, error) {
	a.mu.Lock()
	key := a.dpop
	a.mu.Unlock()
	if key == nil && d.WantsDPoP(c) {
		return jwt.NewDPoPKey()
	}
	if !d.DPoP {
		key = nil
	}
	return key, nil
}

// nonceOf returns the nonce of a response (RFC 9449, section 8.1); empty without one
// that can be used.
func nonceOf(h http.Header) string {
	nonce := h.Get("DPoP-Nonce")
	if len(nonce) > maxNonceBytes || strings.ContainsFunc(nonce, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '"' || r == '\\' }) {
		return ""
	}
	return nonce
}

// maxRecentSecrets is how many values are remembered beside the permanent and the
// current ones. Old tokens appear in errors for a while.
const maxRecentSecrets = 48

// maxProofKeys is for how many keys DPoP proofs are recognized.
const maxProofKeys = 8

// redactor masks secrets in texts. Safe for concurrent use.
type redactor struct {
	mu        sync.Mutex        // guards the fields below
	permanent []string          // those of the spec
	current   []string          // the tokens in use
	recent    []string          // the others; the last one added is the last one dropped
	proofs    []string          // the first parts of DPoP proofs, one for each key
	replacer  *strings.Replacer // made from the above when it is needed; nil: it has to be
}

// addPermanent adds values that are masked forever.
func (r *redactor) addPermanent(values ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.permanent = append(r.permanent, maskable(values)...)
	r.replacer = nil
}

// add adds values that are masked until many others were added.
func (r *redactor) add(values ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.addRecent(values)
}

// setCurrent replaces the current values. The old ones become recent ones.
func (r *redactor) setCurrent(values ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.current
	r.current = maskable(values)
	r.addRecent(old)
}

// addRecent adds recent values. The caller holds r.mu.
func (r *redactor) addRecent(values []string) {
	for _, v := range maskable(values) {
		r.recent = append(slices.DeleteFunc(r.recent, func(old string) bool { return old == v }), v)
	}
	r.recent = slices.Delete(r.recent, 0, max(0, len(r.recent)-maxRecentSecrets))
	r.replacer = nil
}

// maskable returns the values that are long enough to be masked.
func maskable(values []string) (all []string) {
	for _, v := range values {
		if len(v) >= secret.MinLength {
			all = append(all, v)
		}
	}
	return all
}

// redact returns text with a mask for each secret, in every form in which text may
// hold it ([secret.List.Add]).
func (r *redactor) redact(text string) string {
	// The replacer is made once for many texts: making it costs more than using it.
	r.mu.Lock()
	if r.replacer == nil {
		var all secret.List
		all.Add(slices.Concat(r.permanent, r.current, r.recent)...)
		r.replacer = all.Replacer()
	}
	replacer, proofs := r.replacer, r.proofs
	r.mu.Unlock()
	for _, header := range proofs {
		text = maskProofs(text, header)
	}
	return replacer.Replace(text)
}

// addProofs makes all DPoP proofs masked that begin with header. Each request has another
// proof, so they are found by what they have in common.
func (r *redactor) addProofs(header string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Contains(r.proofs, header) {
		r.proofs = append(slices.Clone(r.proofs[max(0, len(r.proofs)-maxProofKeys+1):]), header)
	}
}

// maskProofs returns text with a mask for each proof that begins with header.
func maskProofs(text, header string) string {
	for {
		before, after, found := strings.Cut(text, header)
		if !found {
			return text
		}
		text = before + secret.Mask + strings.TrimLeft(after, proofCharacters)
	}
}

// proofCharacters are those of a JWT.
const proofCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_."

// redactError returns err if its text holds no secret, else an error with the redacted
// text. That one wraps nothing, because what it wrapped would hold the secret, too.
func (r *redactor) redactError(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if redacted := r.redact(text); redacted != text {
		return errors.New(redacted)
	}
	return err
}
