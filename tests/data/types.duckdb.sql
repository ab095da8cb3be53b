CREATE TYPE mood AS ENUM ('glad', 'sad and more');
CREATE TABLE t AS SELECT
    i AS id, (i % 100)::TINYINT AS tiny, i::USMALLINT AS small, (i * 3)::UINTEGER AS n32,
    (18446744073709551615 - i)::UBIGINT AS n64, (i::HUGEINT * 1000000000000000000000) AS huge,
    (i::UHUGEINT * 7) AS uhuge, i % 3 = 0 AS odd, i / 3 AS f, (i / 7)::FLOAT AS f32,
    (i * 1.01)::DECIMAL(4, 0) AS d4, (i * -0.01)::DECIMAL(9, 2) AS d9, (i * 1.5)::DECIMAL(18, 3) AS d18,
    (i * 1.25)::DECIMAL(30, 4) AS d30, CASE WHEN i % 5 > 0 THEN repeat('ä', i % 20) END AS name,
    ('\xFF'::BLOB || i::VARCHAR::BLOB) AS raw, DATE '2026-01-01' - i::INTEGER AS day,
    TIME '01:02:03.000004' AS at, TIMESTAMP '1969-12-31 23:59:59.5' + to_seconds(i) AS us,
    (TIMESTAMP '2026-01-01' + to_seconds(i))::TIMESTAMP_S AS s,
    (TIMESTAMP '2026-01-01' + to_seconds(i))::TIMESTAMP_MS AS ms,
    (TIMESTAMP '2026-01-01' + to_seconds(i))::TIMESTAMP_NS AS ns,
    TIMESTAMPTZ '2026-01-01 00:00:00+00' AS tz, to_months(3) + to_days(i::INTEGER) AS every,
    (CASE WHEN i % 2 = 0 THEN 'glad' ELSE 'sad and more' END)::mood AS mood,
    uuid() AS u, CASE WHEN i % 4 = 0 THEN NULL ELSE range(i % 4) END AS list,
    [i, NULL, -i]::BIGINT[3] AS three,
    [['a', NULL], [], NULL] AS nested, {'a': i, 'b': [i]} AS both, MAP {'k': i} AS m,
    json_object('a', i) AS j
FROM range(5000) AS r(i);
INSERT INTO t (id) VALUES (NULL);
CREATE VIEW seen AS SELECT id FROM t;
CREATE TABLE ends AS SELECT DATE '2026-01-01' AS d, NULL::TIMESTAMP AS s
    UNION ALL SELECT DATE 'infinity', NULL UNION ALL SELECT NULL, TIMESTAMP '-infinity';
