// One HTTP/1.x client connection: its requests one after the other, and the stream each of them
// gets. Private to core/http.
//
// The connection holds no buffer while it is idle. During an exchange nothing is read beyond the
// request: what a client pipelines waits in the kernel, or behind the request in its buffer.
//
// Threads: the server's loop.
// Owns:    socket and buffers. Lives in the frame of the connection's task.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "core/http/body_decoder.hpp"
#include "core/http/head_parser.hpp"
#include "core/http/server.hpp"
#include "core/http/server_impl.hpp"

namespace sluice::http {

class Http1Connection final : public ServerStream, public net::SocketWatcher {
public:
    Http1Connection(Server::Impl& server, net::Accepted accepted);
    ~Http1Connection() override;

    // From accept to close.
    net::Task<void> run();
    // As if the client had left.
    void end_now() noexcept;

    // ServerStream
    const RequestHead& head() const noexcept override { return parser_.head(); }
    std::string_view peer() const noexcept override;
    net::Address local() const noexcept override;
    std::string_view connection_value() const noexcept override { return parser_.connection(); }
    net::Loop& loop() const noexcept override { return server_.loop; }
    net::Cancel& departure() noexcept override { return departure_; }
    net::Task<Result<std::string_view>> read_body(std::size_t max_bytes,
                                                  std::chrono::milliseconds gap,
                                                  net::Cancel* stop) override;
    void release_body() noexcept override { body_.release(); }
    void send_head(int status, HeaderSpan headers, Framing framing,
                   std::string_view reason) override;
    net::Task<Status> send_body(std::span<const std::string_view> parts, bool last) override;
    net::Task<Status> send_body(std::string_view part, bool last) override;
    net::Task<Status> flush() override;
    net::Task<Status> finish() override;
    void abort() noexcept override;
    void close_after() noexcept override { closing_ = true; }
    void set_client_idle(std::chrono::milliseconds idle) noexcept override { client_idle_ = idle; }
    void set_send_deadline(std::uint64_t deadline_us) noexcept override {
        send_deadline_us_ = deadline_us;
    }
    bool head_taken() const noexcept override { return head_taken_; }
    bool is_finished() const noexcept override { return finished_; }
    std::uint64_t bytes_sent() const noexcept override { return bytes_sent_; }
    std::uint64_t bytes_received() const noexcept override { return bytes_received_; }
    std::uint64_t started_us() const noexcept override { return started_us_; }

    // SocketWatcher
    void on_hangup() noexcept override { departure_.fire(); }

    Http1Connection* previous = nullptr;  // the server's list
    Http1Connection* next = nullptr;

private:
    enum class Head { Partial, Complete, Gone, Refused };
    enum class Body : std::uint8_t { Unread, Read, Failed };

    // server_connection.cpp: the life of a connection
    Head parse_head();
    Head receive_head();
    net::Task<Head> read_request_head(Head head);
    net::Task<void> exchange();
    void begin_exchange() noexcept;
    void end_exchange();
    net::Task<void> refuse(int status, std::string_view message);
    net::Task<void> linger();

    // server_body.cpp
    net::Task<Result<std::string_view>> read_length_body(std::uint64_t length,
                                                         std::chrono::milliseconds gap,
                                                         net::Cancel* stop);
    net::Task<Result<std::string_view>> read_chunked_body(std::size_t max_bytes,
                                                          std::chrono::milliseconds gap,
                                                          net::Cancel* stop);
    net::Task<Status> send_continue();
    Error body_failed(Error error) noexcept;
    void keep_for_next(std::string_view bytes);

    // server_response.cpp
    bool begin_write(std::size_t payload_bytes, bool last);
    void end_write(bool last);
    bool write_now(Status& outcome);
    net::Task<Status> write_rest();
    bool is_body_consumed() const noexcept;

    Server::Impl& server_;
    net::Socket socket_;
    net::Address peer_address_;
    net::Cancel departure_;
    mutable std::string peer_;  // text of peer_address_, made when asked for

    // The request.
    net::Buffer in_;    // head, body if it fits, and what follows
    net::Buffer body_;  // a body that does not fit behind its head
    net::Buffer next_;  // what was read beyond a body in body_
    RequestParser parser_;
    std::size_t message_bytes_ = 0;  // of in_ that belong to this request
    std::uint64_t bytes_received_ = 0;
    std::uint64_t started_us_ = 0;
    std::chrono::milliseconds client_idle_{-1};
    Body body_state_ = Body::Unread;

    // The response.
    std::string head_out_;  // a head not sent yet
    std::vector<iovec> parts_;
    std::array<char, 18> chunk_line_{};
    std::size_t write_left_ = 0;  // of parts_
    std::uint64_t send_deadline_us_ = net::kNever;
    std::uint64_t length_left_ = 0;
    std::uint64_t bytes_sent_ = 0;
    BodyKind framing_ = BodyKind::None;
    bool head_taken_ = false;
    bool drops_body_ = false;  // HEAD, 204, 304
    bool finished_ = false;
    bool aborted_ = false;
    bool in_exchange_ = false;

    bool closing_ = false;  // this response is the last
};

}  // namespace sluice::http
