// A wish that waiting ends: the client left, a sibling failed, the daemon stops.
//
// Everything awaited with this object ends with Code::Cancelled once it is fired; so does whatever
// is begun later, until reset(). A Cancel made from a parent is fired with it.
//
// Threads: one loop's. fire() resumes nobody itself: waiters are queued on their loop.
// Owns:    nothing. It must outlive what was awaited with it; a child must not outlive its parent.
#pragma once

namespace sluice::net {

class Cancel {
public:
    // Something that hears of the wish, at most once per attach.
    class Waiter {
    public:
        Waiter() = default;
        Waiter(const Waiter&) = delete;
        Waiter& operator=(const Waiter&) = delete;
        virtual ~Waiter() {
            if (of_ != nullptr) {
                leave();
            }
        }
        virtual void cancelled() noexcept = 0;

    protected:
        void leave() noexcept;

    private:
        friend class Cancel;
        Waiter* prev_ = nullptr;
        Waiter* next_ = nullptr;
        Cancel* of_ = nullptr;
    };

    Cancel() : link_(*this) {}
    explicit Cancel(Cancel& parent) : Cancel() {
        if (parent.fired()) {
            fired_ = true;
        } else {
            parent.attach(link_);
        }
    }
    Cancel(const Cancel&) = delete;
    Cancel& operator=(const Cancel&) = delete;
    ~Cancel();

    void fire() noexcept;
    bool fired() const noexcept { return fired_; }
    // Makes it usable again. A child stays cut from a parent that has fired.
    void reset() noexcept { fired_ = false; }
    // Precondition: not fired, the waiter is attached to nothing.
    void attach(Waiter& waiter) noexcept;

private:
    struct Link final : Waiter {
        explicit Link(Cancel& child) : child_(child) {}
        void cancelled() noexcept override { child_.fire(); }
        Cancel& child_;
    };

    Waiter* first_ = nullptr;
    bool fired_ = false;
    Link link_;
};

// Fires one Cancel when another is fired, for a wish with a second source beside its parent.
class CancelWith final : public Cancel::Waiter {
public:
    CancelWith(Cancel& source, Cancel& target) : target_(target) {
        source.fired() ? target_.fire() : source.attach(*this);
    }
    void cancelled() noexcept override { target_.fire(); }

private:
    Cancel& target_;
};

}  // namespace sluice::net
