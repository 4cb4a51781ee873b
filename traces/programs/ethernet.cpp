// Discrete-event simulation of a switched Ethernet: ethernet HOSTS HOSTS_PER_SWITCH.
//
// A host is an application over a network card, with queues and histograms of their own; switches
// look hosts up in tables, and one more joins them. Messages are allocated one by one and wait in
// a binary heap of pointers.

#include <malloc.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <vector>

struct Module;

enum class Kind { Think, Frame, Sent };

struct Message {
    double time;        // of its arrival, s
    uint64_t order;     // of two at one time, the one that was sent first comes first
    double created;     // s
    Module *to;
    Kind kind;
    uint32_t source, destination; // hosts
    uint32_t gate;      // of the module where it arrives
    uint32_t bytes;
    bool is_request;
};

// What is yet to happen.
class Simulation {
  public:
    double now = 0;

    void send(Message *message, Module *to, uint32_t gate, double delay) {
        message->to = to;
        message->gate = gate;
        message->time = now + delay;
        message->order = sent_++;
        size_t at = heap_.size();
        heap_.push_back(message);
        for (; at > 0 && before(message, heap_[(at - 1) / 2]); at = (at - 1) / 2)
            heap_[at] = heap_[(at - 1) / 2];
        heap_[at] = message;
    }

    Message *next() {
        Message *first = heap_.front(), *last = heap_.back();
        heap_.pop_back();
        size_t at = 0, size = heap_.size();
        for (size_t child = 1; child < size; child = 2 * at + 1) {
            if (child + 1 < size && before(heap_[child + 1], heap_[child]))
                child++;
            if (before(last, heap_[child]))
                break;
            heap_[at] = heap_[child];
            at = child;
        }
        if (size > 0)
            heap_[at] = last;
        now = first->time;
        return first;
    }

    uint32_t random() {
        state_ ^= state_ << 13;
        state_ ^= state_ >> 7;
        state_ ^= state_ << 17;
        return static_cast<uint32_t>(state_ >> 32);
    }

    double exponential(double mean) { return -mean * std::log((random() + 1.0) / 4294967296.0); }

  private:
    static bool before(const Message *one, const Message *other) {
        return one->time < other->time || (one->time == other->time && one->order < other->order);
    }

    std::vector<Message *> heap_;
    uint64_t sent_ = 0;
    uint64_t state_ = 88172645463325252u;
};

struct Module {
    virtual ~Module() = default;
    virtual void handle(Simulation &simulation, Message *message) = 0;
};

class Histogram {
  public:
    Histogram(double width) : width_(width), bins_(500) {}

    void add(double value) {
        count_++;
        sum_ += value;
        squares_ += value * value;
        size_t bin = static_cast<size_t>(value / width_);
        bins_[bin < bins_.size() ? bin : bins_.size() - 1] += 1;
    }

  private:
    double width_, sum_ = 0, squares_ = 0;
    uint64_t count_ = 0;
    std::vector<double> bins_;
};

// The sending side of a cable: frames wait until those before them are out.
class Port {
  public:
    void connect(Module *owner, uint32_t gate, Module *peer, uint32_t peer_gate, double rate) {
        owner_ = owner, gate_ = gate, peer_ = peer, peer_gate_ = peer_gate, rate_ = rate;
    }

    void put(Simulation &simulation, Message *frame) {
        lengths_.add(queue_.size());
        queue_.push_back(frame);
        if (queue_.size() == 1)
            transmit(simulation);
    }

    void sent(Simulation &simulation) {
        queue_.pop_front();
        if (!queue_.empty())
            transmit(simulation);
    }

  private:
    void transmit(Simulation &simulation) {
        Message *frame = queue_.front();
        double duration = frame->bytes * 8 / rate_;
        simulation.send(new Message{0, 0, simulation.now, nullptr, Kind::Sent, 0, 0, 0, 0, false},
                        owner_, gate_, duration);
        simulation.send(frame, peer_, peer_gate_, duration + 1e-6);
    }

    Module *owner_, *peer_;
    uint32_t gate_, peer_gate_;
    double rate_; // bits/s
    std::deque<Message *> queue_;
    Histogram lengths_{1};
};

class Switch : public Module {
  public:
    Switch(size_t gates) : ports(gates) {}

    void handle(Simulation &simulation, Message *message) override {
        if (message->kind == Kind::Sent) {
            ports[message->gate].sent(simulation);
            delete message;
            return;
        }
        auto known = gates_.find(message->destination);
        uint32_t gate = known != gates_.end() ? known->second : ports.size() - 1;
        ports[gate].put(simulation, message);
    }

    void add_host(uint32_t host, uint32_t gate) { gates_[host] = gate; }

    std::vector<Port> ports;

  private:
    std::map<uint32_t, uint32_t> gates_; // where each host is; others: the last gate
};

// Asks another host, waits for all of the answer, thinks, and asks again.
class Application : public Module {
  public:
    Application(uint32_t self, uint32_t hosts, Port &port)
        : self_(self), hosts_(hosts), port_(port) {}

    void start(Simulation &simulation) {
        Message *think = new Message{0, 0, 0, nullptr, Kind::Think, self_, self_, 0, 0, false};
        simulation.send(think, this, 0, simulation.exponential(0.1));
    }

    void handle(Simulation &simulation, Message *message) override {
        if (message->kind == Kind::Think) {
            uint32_t server = simulation.random() % hosts_;
            awaited_ = server == self_ ? 0 : 1 + simulation.random() % 4;
            if (awaited_)
                put(simulation, server, 64 + awaited_, true);
        } else if (message->is_request) {
            for (uint32_t frame = message->bytes - 64; frame > 0; frame--)
                put(simulation, message->source, 1000, false);
        } else {
            delays_.add(simulation.now - message->created);
            awaited_--;
        }
        delete message;
        if (awaited_ == 0) {
            awaited_ = ~0u;
            start(simulation);
        }
    }

  private:
    void put(Simulation &simulation, uint32_t to, uint32_t bytes, bool is_request) {
        sizes_.add(bytes);
        port_.put(simulation, new Message{0, 0, simulation.now, nullptr, Kind::Frame, self_, to, 0,
                                          bytes, is_request});
    }

    uint32_t self_, hosts_, awaited_ = ~0u;
    Port &port_;
    Histogram delays_{1e-5}, sizes_{4};
};

class Card : public Module {
  public:
    Card(uint32_t self, uint32_t hosts) : application(self, hosts, port), self_(self) {}

    void handle(Simulation &simulation, Message *message) override {
        if (message->kind == Kind::Sent) {
            port.sent(simulation);
        } else if (message->destination == self_) {
            simulation.send(message, &application, 0, 1e-6);
            return;
        }
        delete message;
    }

    Port port;
    Application application;

  private:
    uint32_t self_;
};

int main(int count, char **arguments) {
    uint32_t hosts = count > 1 ? atoi(arguments[1]) : 64;
    uint32_t per_switch = count > 2 ? atoi(arguments[2]) : 16;
    if (per_switch == 0 || hosts % per_switch != 0) {
        fputs("ethernet: HOSTS must be a multiple of HOSTS_PER_SWITCH\n", stderr);
        return 1;
    }
    // Grown in small steps, as usual, the heap would only get large pages from a daemon later.
    mallopt(M_TOP_PAD, 256 << 20);
    Simulation simulation;
    uint32_t switches = hosts / per_switch;
    Switch backbone(switches);
    std::vector<std::unique_ptr<Module>> modules;
    for (uint32_t number = 0; number < switches; number++) {
        auto local = std::make_unique<Switch>(per_switch + 1);
        backbone.ports[number].connect(&backbone, number, local.get(), per_switch, 1e10);
        local->ports[per_switch].connect(local.get(), per_switch, &backbone, number, 1e10);
        for (uint32_t gate = 0; gate < per_switch; gate++) {
            uint32_t host = number * per_switch + gate;
            local->add_host(host, gate);
            backbone.add_host(host, number);
            auto card = std::make_unique<Card>(host, hosts);
            card->port.connect(card.get(), 0, local.get(), gate, 1e8);
            local->ports[gate].connect(local.get(), gate, card.get(), 0, 1e8);
            card->application.start(simulation);
            modules.push_back(std::move(card));
        }
        modules.push_back(std::move(local));
    }
    fputs("ethernet: the network is built\n", stderr);
    uint64_t events = 0;
    while (simulation.now < 10) {
        Message *message = simulation.next();
        message->to->handle(simulation, message);
        events++;
    }
    printf("%llu events\n", static_cast<unsigned long long>(events));
}
