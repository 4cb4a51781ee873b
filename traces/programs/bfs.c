/* Breadth-first searches on an R-MAT graph (Graph500's parameters: 0.57, 0.19, 0.19, 0.05).
 *
 * bfs SCALE EDGE_FACTOR: 2^SCALE vertices, EDGE_FACTOR * 2^SCALE undirected edges, compressed
 * sparse rows with 4-byte vertices. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state = 88172645463325252u;

static uint32_t next_random(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 32);
}

static uint32_t scramble(uint32_t vertex, uint32_t mask) {
    return (vertex * 2654435761u + 12345u) & mask; /* odd factor: a permutation */
}

static void draw_edge(int scale, uint32_t mask, uint32_t *from, uint32_t *to) {
    uint32_t row = 0, column = 0;
    for (int bit = 0; bit < scale; bit++) {
        uint32_t part = next_random() % 100;
        row = row << 1 | (part >= 76);
        column = column << 1 | ((part >= 57 && part < 76) || part >= 95);
    }
    *from = scramble(row, mask);
    *to = scramble(column, mask);
}

static void *allocate(size_t count, size_t size) {
    void *memory = calloc(count, size);
    if (!memory) {
        fputs("bfs: out of memory\n", stderr);
        exit(1);
    }
    return memory;
}

int main(int count, char **arguments) {
    int scale = count > 1 ? atoi(arguments[1]) : 20;
    uint32_t vertices = 1u << scale, mask = vertices - 1;
    uint64_t edges = (uint64_t)(count > 2 ? atoi(arguments[2]) : 16) << scale;
    uint32_t *list = allocate(edges * 2, sizeof *list);
    uint64_t *start = allocate(vertices + 2, sizeof *start);
    for (uint64_t edge = 0; edge < edges; edge++) {
        draw_edge(scale, mask, &list[2 * edge], &list[2 * edge + 1]);
        start[list[2 * edge] + 2]++;
        start[list[2 * edge + 1] + 2]++;
    }
    for (uint32_t vertex = 1; vertex <= vertices; vertex++)
        start[vertex + 1] += start[vertex];
    uint32_t *neighbour = allocate(edges * 2, sizeof *neighbour);
    for (uint64_t edge = 0; edge < edges; edge++) {
        uint32_t from = list[2 * edge], to = list[2 * edge + 1];
        neighbour[start[from + 1]++] = to;
        neighbour[start[to + 1]++] = from;
    }
    free(list);
    uint32_t *parent = allocate(vertices, sizeof *parent);
    uint32_t *queue = allocate(vertices, sizeof *queue);
    fputs("bfs: the graph is built\n", stderr);
    for (int search = 0; search < 64; search++) {
        memset(parent, 0xff, vertices * sizeof *parent);
        uint32_t root = next_random() & mask, head = 0, tail = 0;
        parent[root] = root;
        queue[tail++] = root;
        while (head < tail) {
            uint32_t vertex = queue[head++];
            for (uint64_t at = start[vertex]; at < start[vertex + 1]; at++) {
                uint32_t other = neighbour[at];
                if (parent[other] == UINT32_MAX) {
                    parent[other] = vertex;
                    queue[tail++] = other;
                }
            }
        }
        printf("%d: %u vertices reached from %u\n", search, tail, root);
    }
    return 0;
}
