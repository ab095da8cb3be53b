// h2spec, the conformance suite of tests/servers/test_http2_conformance.py, and what it needs: the newest of
// each that Go 1.18 compiles. tools/install-servers builds it.
module venturi/tools/h2spec

go 1.18

require (
	github.com/fatih/color v1.18.0
	github.com/mattn/go-colorable v0.1.13
	github.com/mattn/go-isatty v0.0.20
	github.com/spf13/cobra v1.8.1
	github.com/spf13/pflag v1.0.5
	github.com/summerwind/h2spec v2.2.1+incompatible
	golang.org/x/net v0.35.0
	golang.org/x/sys v0.30.0
	golang.org/x/text v0.22.0
)
