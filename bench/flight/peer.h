// What the two Flight peers share: the messages of Arrow's Flight performance protocol
// and the batch that is sent again and again.
//
// The messages are two proto3 structs of varints, so they are coded by hand and the
// build needs no protoc:
//   Perf  { bytes schema = 1; int32 stream_count = 2; int64 records_per_stream = 3; int32 records_per_batch = 4; }
//   Token { Perf definition = 1; int64 start = 2; int64 end = 3; }
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <arrow/api.h>

namespace peer {

struct Perf {
  int64_t stream_count = 0;
  int64_t records_per_stream = 0;
  int64_t records_per_batch = 0;
};

struct Token {
  Perf definition;
  int64_t start = 0;
  int64_t end = 0;
};

// ---- proto3 wire format -------------------------------------------------------------

inline void PutVarint(std::string* out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out->push_back(static_cast<char>(value | 0x80));
  out->push_back(static_cast<char>(value));
}

// proto3 leaves out a field that holds its default.
inline void PutInt(std::string* out, int field, int64_t value) {
  if (value == 0) return;
  PutVarint(out, static_cast<uint64_t>(field) << 3);
  PutVarint(out, static_cast<uint64_t>(value));
}

inline std::string Encode(const Perf& perf) {
  std::string out;
  PutInt(&out, 2, perf.stream_count);
  PutInt(&out, 3, perf.records_per_stream);
  PutInt(&out, 4, perf.records_per_batch);
  return out;
}

inline std::string Encode(const Token& token) {
  const std::string definition = Encode(token.definition);
  std::string out;
  PutVarint(&out, 1 << 3 | 2);
  PutVarint(&out, definition.size());
  out += definition;
  PutInt(&out, 2, token.start);
  PutInt(&out, 3, token.end);
  return out;
}

// Walks the fields of a message. Unknown fields are stepped over, as protobuf asks.
class Fields {
 public:
  explicit Fields(std::string_view bytes) : rest_(bytes) {}

  // False at the end of the message or where it is malformed; ok() tells which.
  bool Next() {
    if (rest_.empty() || !ok_) return false;
    uint64_t tag = 0;
    if (!Varint(&tag)) return false;
    field_ = static_cast<int>(tag >> 3);
    bytes_ = {};
    value_ = 0;
    switch (tag & 7) {
      case 0:
        return Varint(&value_);
      case 1:
        return Take(8);
      case 2: {
        uint64_t length = 0;
        return Varint(&length) && Take(length);
      }
      case 5:
        return Take(4);
      default:
        return ok_ = false;
    }
  }

  bool ok() const { return ok_; }
  int field() const { return field_; }
  int64_t value() const { return static_cast<int64_t>(value_); }
  std::string_view bytes() const { return bytes_; }

 private:
  bool Varint(uint64_t* value) {
    *value = 0;
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      *value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return true;
    }
    return ok_ = false;
  }

  bool Take(uint64_t length) {
    if (length > rest_.size()) return ok_ = false;
    bytes_ = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return true;
  }

  std::string_view rest_;
  std::string_view bytes_;
  uint64_t value_ = 0;
  int field_ = 0;
  bool ok_ = true;
};

inline arrow::Result<Perf> DecodePerf(std::string_view bytes) {
  Perf perf;
  Fields fields(bytes);
  while (fields.Next()) {
    if (fields.field() == 2) perf.stream_count = fields.value();
    if (fields.field() == 3) perf.records_per_stream = fields.value();
    if (fields.field() == 4) perf.records_per_batch = fields.value();
  }
  if (!fields.ok()) return arrow::Status::Invalid("cannot parse the Perf message");
  if (perf.stream_count < 1 || perf.records_per_stream < 1 || perf.records_per_batch < 1) {
    return arrow::Status::Invalid("Perf: the counts must be positive");
  }
  return perf;
}

inline arrow::Result<Token> DecodeToken(std::string_view bytes) {
  Token token;
  Fields fields(bytes);
  while (fields.Next()) {
    if (fields.field() == 1) {
      ARROW_ASSIGN_OR_RAISE(token.definition, DecodePerf(fields.bytes()));
    }
    if (fields.field() == 2) token.start = fields.value();
    if (fields.field() == 3) token.end = fields.value();
  }
  if (!fields.ok()) return arrow::Status::Invalid("cannot parse the Token message");
  if (token.definition.records_per_batch < 1) {
    return arrow::Status::Invalid("the ticket is not a Token message");
  }
  return token;
}

// ---- data ---------------------------------------------------------------------------

inline std::shared_ptr<arrow::Schema> PerfSchema() {
  return arrow::schema({arrow::field("a", arrow::int64()), arrow::field("b", arrow::int64()),
                        arrow::field("c", arrow::int64()), arrow::field("d", arrow::int64())});
}

// Four int64 columns of random bytes without nulls, as the protocol has them.
inline arrow::Result<std::shared_ptr<arrow::RecordBatch>> RandomBatch(int64_t rows) {
  std::vector<std::shared_ptr<arrow::Array>> columns;
  for (unsigned column = 0; column < 4; ++column) {
    ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> buffer,
                          arrow::AllocateBuffer(rows * static_cast<int64_t>(sizeof(int64_t))));
    std::mt19937_64 random(column);
    auto* values = reinterpret_cast<uint64_t*>(buffer->mutable_data());
    for (int64_t row = 0; row < rows; ++row) values[row] = random();
    columns.push_back(std::make_shared<arrow::Int64Array>(rows, buffer));
  }
  return arrow::RecordBatch::Make(PerfSchema(), rows, std::move(columns));
}

// The same batch until `total` rows were handed out; the last one is sliced.
class Repeated : public arrow::RecordBatchReader {
 public:
  Repeated(std::shared_ptr<arrow::RecordBatch> batch, int64_t total)
      : batch_(std::move(batch)), left_(total) {}

  std::shared_ptr<arrow::Schema> schema() const override { return batch_->schema(); }

  arrow::Status ReadNext(std::shared_ptr<arrow::RecordBatch>* out) override {
    if (left_ == 0) {
      *out = nullptr;
    } else if (left_ < batch_->num_rows()) {
      *out = batch_->Slice(0, left_);
      left_ = 0;
    } else {
      *out = batch_;
      left_ -= batch_->num_rows();
    }
    return arrow::Status::OK();
  }

 private:
  std::shared_ptr<arrow::RecordBatch> batch_;
  int64_t left_;
};

}  // namespace peer
