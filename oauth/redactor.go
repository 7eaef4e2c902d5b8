package oauth

import (
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/mcpvisor/mcpvisor/internal/secret"
)

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
