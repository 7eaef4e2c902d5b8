package gateway

import (
	"crypto/sha256"
	"time"

	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/gateway/internal/opentasks"
	"github.com/mcpvisor/mcpvisor/gateway/internal/seal"
)

// A client gets a sealed id in place of the id of a server: it has the principal, the server, the
// server's id and an expiry, so another process with the same key can answer for the task.

func (c *connection) taskName(server, id string) opentasks.Name {
	if !c.isCopied(server) {
		return opentasks.Name{Server: server, ID: id}
	}
	return opentasks.Name{Server: server, ID: id, Copy: c.tenantKey}
}

// taskKind is the kind of sealed text that an id is.
const taskKind = "task"

// maxSealedTask bounds an id that is opened, in bytes. It is more than any that sealTask makes.
const maxSealedTask = 4 << 10

// sealTask returns the id of a task for the client.
func (c *connection) sealTask(name opentasks.Name, expiry time.Time) string {
	fields := []string{string(principalDigest(c.owner)), name.Server, name.ID, seal.Time(expiry)}
	if name.Copy != "" {
		fields = append(fields, name.Copy)
	}
	return seal.Seal(c.opts.key, taskKind, fields...)
}

func principalDigest(principal string) []byte {
	sum := sha256.Sum256([]byte(principal))
	return sum[:16]
}

// errUnknownTask does not tell an id of another principal from a forged one.
var errUnknownTask = message.InvalidParams("there is no such task: the id is not one that this client was given")

// openTask returns the task of an id that a client has sent.
func (c *connection) openTask(sealed string) (opentasks.Name, error) {
	if len(sealed) > maxSealedTask {
		return opentasks.Name{}, errUnknownTask
	}
	fields, err := seal.Open(c.opts.key, taskKind, sealed)
	if err != nil || len(fields) < 4 || fields[0] != string(principalDigest(c.owner)) {
		return opentasks.Name{}, errUnknownTask
	}
	if expiry := seal.ReadTime(fields[3]); !time.Now().Before(expiry) {
		return opentasks.Name{}, message.InvalidParams("the id of the task has expired at " + expiry.UTC().Format(time.RFC3339))
	}
	name := c.taskName(fields[1], fields[2])
	if copied := append(fields, "")[4]; name.Copy != copied {
		return opentasks.Name{}, errTaskGone
	}
	return name, nil
}
