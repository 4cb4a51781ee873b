// Vehicle scheduling as minimum-cost flow, solved with LEMON's network simplex.
//
// simplex TRIPS CONNECTIONS WINDOW: a timetable of TRIPS trips; after each, a vehicle may take one
// of CONNECTIONS trips that begin within the next WINDOW trips, or go back to the depot.

#include <lemon/network_simplex.h>
#include <lemon/smart_graph.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

using Graph = lemon::SmartDigraph;
using Simplex = lemon::NetworkSimplex<Graph, int, int64_t>;

static uint32_t next_random() {
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return static_cast<uint32_t>(state >> 32);
}

int main(int count, char **arguments) {
    int trips = count > 1 ? atoi(arguments[1]) : 100'000;
    int connections = count > 2 ? atoi(arguments[2]) : 6;
    int window = count > 3 ? atoi(arguments[3]) : 1'000;
    const int depot_cost = 1'000'000;

    // Each trip ends (supply 1) and begins (demand 1): a unit of flow from an end to a beginning
    // is a vehicle that goes on; through the depot, one that comes or goes.
    Graph graph;
    graph.reserveNode(2 * trips + 1);
    graph.reserveArc(trips * (connections + 2));
    std::vector<Graph::Node> ends, begins;
    for (int trip = 0; trip < trips; trip++) {
        ends.push_back(graph.addNode());
        begins.push_back(graph.addNode());
    }
    Graph::Node depot = graph.addNode();
    std::vector<int> costs;
    for (int trip = 0; trip < trips; trip++) {
        for (int connection = 0; connection < connections; connection++) {
            int wait = 1 + next_random() % window;
            if (trip + wait >= trips)
                continue;
            graph.addArc(ends[trip], begins[trip + wait]);
            costs.push_back(10 * wait + next_random() % 10'000);
        }
        graph.addArc(ends[trip], depot);
        costs.push_back(depot_cost);
        graph.addArc(depot, begins[trip]);
        costs.push_back(depot_cost);
    }

    Graph::NodeMap<int> supply(graph, 0);
    for (int trip = 0; trip < trips; trip++) {
        supply[ends[trip]] = 1;
        supply[begins[trip]] = -1;
    }
    Graph::ArcMap<int> capacity(graph, trips), cost(graph);
    for (Graph::ArcIt arc(graph); arc != lemon::INVALID; ++arc)
        cost[arc] = costs[graph.id(arc)];

    Simplex simplex(graph);
    simplex.supplyMap(supply).upperMap(capacity).costMap(cost);
    fputs("simplex: the network is built\n", stderr);
    if (simplex.run() != Simplex::OPTIMAL) {
        fputs("simplex: no optimum\n", stderr);
        return 1;
    }
    printf("least cost: %lld\n", static_cast<long long>(simplex.totalCost<int64_t>()));
}
