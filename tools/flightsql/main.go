// The server of the tests of flightsql://: the SQLite example of Arrow's Flight SQL library for Go, over a file,
// with what the example leaves out and a client must be able to meet: a log-in, TLS, bulk ingest, results at
// several endpoints, and on request a server that loses rows or counts them wrong.
package main

import (
	"context"
	"crypto/tls"
	"database/sql"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/flight/flightsql"
	"github.com/apache/arrow-go/v18/arrow/flight/flightsql/example"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
)

type server struct {
	*example.SQLiteFlightSQLServer
	db        *sql.DB
	endpoints int
	elsewhere string
	ingests   bool
	fault     string
}

// The rows of a query in as many parts, by their order; every second one is elsewhere, if there is such a place.
func (s *server) GetFlightInfoStatement(ctx context.Context, cmd flightsql.StatementQuery, desc *flight.FlightDescriptor) (*flight.FlightInfo, error) {
	query := cmd.GetQuery()
	if s.endpoints == 0 {
		return s.SQLiteFlightSQLServer.GetFlightInfoStatement(ctx, cmd, desc)
	}
	var rows int64
	counted := s.db.QueryRowContext(ctx, fmt.Sprintf("SELECT count(*) FROM (%s\n)", query))
	if err := counted.Scan(&rows); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	info := &flight.FlightInfo{FlightDescriptor: desc, TotalRecords: rows, TotalBytes: -1}
	for n := int64(0); n < int64(s.endpoints); n++ {
		first, last := rows*n/int64(s.endpoints), rows*(n+1)/int64(s.endpoints)
		part := fmt.Sprintf("SELECT * FROM (%s\n) LIMIT %d OFFSET %d", query, last-first, first)
		ticket, err := flightsql.CreateStatementQueryTicket([]byte(":" + part))
		if err != nil {
			return nil, err
		}
		endpoint := &flight.FlightEndpoint{Ticket: &flight.Ticket{Ticket: ticket}}
		if s.elsewhere != "" && n%2 == 1 {
			endpoint.Location = []*flight.Location{{Uri: s.elsewhere}}
		}
		info.Endpoint = append(info.Endpoint, endpoint)
	}
	return info, nil
}

// Into a table that is there, all or nothing.
func (s *server) DoPutCommandStatementIngest(ctx context.Context, cmd flightsql.StatementIngest, rdr flight.MessageReader) (int64, error) {
	if !s.ingests {
		return s.SQLiteFlightSQLServer.DoPutCommandStatementIngest(ctx, cmd, rdr)
	}
	options := cmd.GetTableDefinitionOptions()
	if options == nil || options.IfNotExist != flightsql.TableDefinitionOptionsTableNotExistOptionFail ||
		options.IfExists != flightsql.TableDefinitionOptionsTableExistsOptionAppend {
		return 0, status.Error(codes.InvalidArgument, "only tables that are there are added to")
	}
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }()
	marks := strings.TrimSuffix(strings.Repeat("?,", rdr.Schema().NumFields()), ",")
	name := strings.ReplaceAll(cmd.GetTable(), `"`, `""`)
	insert, err := tx.PrepareContext(ctx, fmt.Sprintf(`INSERT INTO "%s" VALUES (%s)`, name, marks))
	if err != nil {
		return 0, err
	}
	var taken int64
	for rdr.Next() {
		batch := rdr.RecordBatch()
		for row := 0; row < int(batch.NumRows()); row++ {
			taken++
			if s.fault == "lose" && taken == 7 {
				continue
			}
			if _, err := insert.ExecContext(ctx, values(batch, row)...); err != nil {
				return 0, err
			}
		}
	}
	if rdr.Err() != nil {
		return 0, rdr.Err()
	}
	if err := tx.Commit(); err != nil {
		return 0, err
	}
	if s.fault == "miscount" && taken > 0 {
		return taken - 1, nil
	}
	if s.fault == "uncounted" {
		return -1, nil
	}
	return taken, nil
}

func values(batch arrow.RecordBatch, row int) []any {
	all := make([]any, batch.NumCols())
	for at, column := range batch.Columns() {
		switch {
		case column.IsNull(row):
			all[at] = nil
		default:
			switch typed := column.(type) {
			case *array.Int64:
				all[at] = typed.Value(row)
			case *array.Float64:
				all[at] = typed.Value(row)
			case *array.String:
				all[at] = typed.Value(row)
			case *array.Binary:
				all[at] = typed.Value(row)
			default:
				all[at] = column.ValueStr(row)
			}
		}
	}
	return all
}

// One account, whose token is told once and then wanted.
type account struct{ user, password, token string }

func (a account) Validate(user, password string) (string, error) {
	if user != a.user || password != a.password {
		return "", status.Error(codes.Unauthenticated, "no such user or password")
	}
	return a.token, nil
}

func (a account) IsValid(token string) (any, error) {
	if token != a.token {
		return nil, status.Error(codes.Unauthenticated, "no such token")
	}
	return a.user, nil
}

func main() {
	host := flag.String("host", "127.0.0.1", "address to listen on")
	port := flag.Int("port", 0, "port; 0: a free one")
	data := flag.String("data", "", "the database's file")
	user := flag.String("user", "", "a log-in is wanted; the password is in FLIGHTSQL_PASSWORD")
	certificate := flag.String("certificate", "", "PEM file, for TLS")
	key := flag.String("key", "", "PEM file")
	served := server{}
	flag.IntVar(&served.endpoints, "endpoints", 0, "parts of a result; 0: as the example has it")
	flag.StringVar(&served.elsewhere, "elsewhere", "", "URI where every second endpoint is")
	flag.BoolVar(&served.ingests, "ingest", false, "take bulk ingests")
	flag.StringVar(&served.fault, "fault", "", "of an ingest: lose, miscount, uncounted")
	flag.Parse()

	db, err := sql.Open("sqlite", "file:"+*data+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(20000)&_txlock=immediate")
	if err != nil {
		log.Fatal(err)
	}
	served.db = db
	served.SQLiteFlightSQLServer, err = example.NewSQLiteFlightSQLServer(db)
	if err != nil {
		log.Fatal(err)
	}
	var middleware []flight.ServerMiddleware
	if *user != "" {
		password := os.Getenv("FLIGHTSQL_PASSWORD")
		middleware = append(middleware, flight.CreateServerBasicAuthMiddleware(account{*user, password, "t-" + password}))
	}
	var options []grpc.ServerOption
	if *certificate != "" {
		pair, err := tls.LoadX509KeyPair(*certificate, *key)
		if err != nil {
			log.Fatal(err)
		}
		options = append(options, grpc.Creds(credentials.NewServerTLSFromCert(&pair)))
	}
	listening := flight.NewServerWithMiddleware(middleware, options...)
	listening.RegisterFlightService(flightsql.NewFlightServer(&served))
	if err := listening.Init(net.JoinHostPort(*host, fmt.Sprint(*port))); err != nil {
		log.Fatal(err)
	}
	fmt.Println("listening on", listening.Addr())
	log.Fatal(listening.Serve())
}
