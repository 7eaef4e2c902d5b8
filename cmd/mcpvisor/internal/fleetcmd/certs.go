package fleetcmd

import (
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/fleet/certs"
	"github.com/mcpvisor/mcpvisor/internal/regularfile"
)

type certsCmd struct {
	Dir   string   `arg:"" help:"Directory for ca.crt and ca.key, and for NODE.crt and NODE.key of each node." complete:"file"`
	Nodes []string `arg:"" name:"node" help:"Id of a node."`
	Host  []string `help:"Names and addresses that the certificates have beside localhost, for programs that compare them, as etcd does. Nodes compare their ids only." sep:"," placeholder:"NAME"`
}

const (
	authorityName = "mcpvisor fleet"
	certFile      = ".crt"
	keyFile       = ".key"
	authorityFile = "ca"
)

func (cmd *certsCmd) Run(inv *cli.Invocation) error {
	for _, node := range cmd.Nodes {
		if err := certs.CheckNodeID(node); err != nil {
			return cli.UsageError("%v", err)
		}
		if node == authorityFile {
			return cli.UsageError("node id %q is taken by the authority; choose another one", node)
		}
		for _, path := range []string{cmd.file(node, certFile), cmd.file(node, keyFile)} {
			if !isNotExist(path) {
				return cli.UsageError("%s exists already; remove it to make a new one, and restart the node then", path)
			}
		}
	}
	if err := os.MkdirAll(cmd.Dir, 0o700); err != nil {
		return cli.UsageError("%v", err)
	}
	authority, made, err := cmd.authority()
	if err != nil {
		return err
	}
	if made {
		inv.Note("made the authority %s; its key, %s, is needed only to make further certificates: keep it off the nodes", cmd.file(authorityFile, certFile), cmd.file(authorityFile, keyFile))
	}
	hosts := append([]string{"localhost", net.IPv4(127, 0, 0, 1).String(), net.IPv6loopback.String()}, cmd.Host...)
	type issued struct {
		Node string `json:"node"`
		Cert string `json:"cert"`
		Key  string `json:"key"`
		CA   string `json:"ca"`
	}
	answer := []issued{}
	for _, node := range cmd.Nodes {
		cert, key, err := authority.Issue(node, hosts...)
		if err != nil {
			return err
		}
		one := issued{node, cmd.file(node, certFile), cmd.file(node, keyFile), cmd.file(authorityFile, certFile)}
		if err := writePair(one.Cert, cert, one.Key, key); err != nil {
			return err
		}
		answer = append(answer, one)
	}
	if inv.JSON {
		return cli.PrintJSON(inv.Out, answer)
	}
	for _, one := range answer {
		if _, err := fmt.Fprintf(inv.Out, "node %s: %s, %s\n", one.Node, one.Cert, one.Key); err != nil {
			return err
		}
	}
	return nil
}

func (cmd *certsCmd) file(name, ext string) string { return filepath.Join(cmd.Dir, name+ext) }

func (cmd *certsCmd) authority() (a *certs.Authority, made bool, err error) {
	certPath, keyPath := cmd.file(authorityFile, certFile), cmd.file(authorityFile, keyFile)
	if isNotExist(certPath) && isNotExist(keyPath) {
		if a, err = certs.NewAuthority(authorityName); err != nil {
			return nil, false, err
		}
		cert, key, err := a.PEM()
		if err != nil {
			return nil, false, err
		}
		return a, true, writePair(certPath, cert, keyPath, key)
	}
	cert, err := regularfile.Read(certPath, maxFile)
	if err != nil {
		return nil, false, cli.UsageError("the authority cannot be read: %v", err)
	}
	key, err := regularfile.Read(keyPath, maxFile)
	if err != nil {
		return nil, false, cli.UsageError("the key of the authority cannot be read, so no certificate can be made: %v", err)
	}
	if a, err = certs.ReadAuthority(cert, key); err != nil {
		return nil, false, cli.UsageError("%s: %v", certPath, err)
	}
	return a, false, nil
}

// writePair writes a key that only the user may read, and then its certificate. Neither may exist.
func writePair(certPath string, cert []byte, keyPath string, key []byte) error {
	if err := writeNew(keyPath, key, 0o600); err != nil {
		return err
	}
	return writeNew(certPath, cert, 0o644)
}

func writeNew(path string, text []byte, mode os.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}
