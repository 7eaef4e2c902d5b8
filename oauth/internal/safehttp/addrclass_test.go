package safehttp

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestClassify(t *testing.T) {
	for text, want := range map[string]addrClass{
		"93.184.216.34": classPublic, "2606:2800:220:1::1": classPublic, "172.32.0.1": classPublic, "100.128.0.1": classPublic,
		"10.1.2.3": classPrivate, "172.16.0.1": classPrivate, "192.168.1.1": classPrivate, "100.64.0.1": classPrivate,
		"fd00::1": classPrivate, "fec0::1": classPrivate, "198.18.0.7": classPrivate,
		"169.254.169.254": classLinkLocal, "fe80::1": classLinkLocal, "fe80::1%eth0": classLinkLocal,
		"127.0.0.1": classLoopback, "127.9.9.9": classLoopback, "::1": classLoopback, "0.0.0.0": classLoopback, "::": classLoopback, "0.1.2.3": classLoopback,
		"::ffff:127.0.0.1": classLoopback, "::ffff:10.0.0.1": classPrivate, "::ffff:169.254.169.254": classLinkLocal, "::ffff:1.1.1.1": classPublic,
		"64:ff9b::7f00:1": classLoopback, "64:ff9b::a00:1": classPrivate, "64:ff9b::101:101": classPublic, "2002:7f00:1::": classLoopback, "2002:a9fe:a9fe::1": classLinkLocal,
		"::127.0.0.1": classLoopback, "224.0.0.1": classInvalid, "ff02::1": classInvalid, "255.255.255.255": classInvalid,
	} {
		require.Equal(t, want, classify(netip.MustParseAddr(text)), text)
	}
	for text, want := range map[string]addrClass{
		"localhost": classLoopback, "LocalHost.": classLoopback, "a.localhost": classLoopback, "127.0.0.1": classLoopback, "fe80::1%eth0": classLinkLocal,
		"127.1": classInvalid, "2130706433": classInvalid, "0x7f000001": classInvalid, "0x7f.1": classInvalid, "127.0.0.1.": classLoopback, "0177.0.0.1": classInvalid, "": classInvalid,
	} {
		got, known := classifyHost(text)
		require.True(t, known, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"mcp.example", "10.example", "3scale", "localhost.example", "face", "0xyz"} {
		_, known := classifyHost(text)
		require.False(t, known, text)
	}
}
