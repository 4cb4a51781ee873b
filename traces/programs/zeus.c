// Hydrodynamics on a three-dimensional grid as in ZEUS (Stone and Norman, ApJS 80, 753, 1992; Hayes et al., ApJS 165,
// 188, 2006): velocities on a staggered mesh, a source step (pressure, artificial viscosity, compression) and a
// transport step, which is split into one sweep for each direction, in an order that changes from step to step.
//
// zeus ZONES STEPS: a blast wave in the corner of a box of ZONES^3 zones.
//
// Arrays are in Fortran's order: zones that are neighbours in direction 1 are neighbours in memory. The source step
// passes over the arrays in this order. A sweep interpolates along its own direction and has that direction in the
// innermost loop, as in ZEUS-MP; sweeps in direction 2 and 3 take four neighbouring lines at a time.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { GHOSTS = 3, LINES = 4, LONGEST = 1024 };

static long zones;
static long strides[3];
static double dx, dt;
static const double gamma_gas = 5.0 / 3.0, courant = 0.5, viscosity = 2.0;

// A sweep reads density and energy_of_mass and writes their next values; then the two are swapped.
static double *density, *density_next, *energy, *velocity[3];
static double *energy_of_mass, *energy_of_mass_next, *mass_flux, *momentum[3], *velocity_next[3];

static double *array(void) {
    long side = zones + 2 * GHOSTS;
    double *all = calloc((size_t)(side * side * side), sizeof(double));
    if (!all)
        exit(1);
    return all + GHOSTS * (1 + side + side * side);
}

static long at(long i, long j, long k) { return i + j * strides[1] + k * strides[2]; }

// Half of van Leer's monotonised difference across a zone.
static double slope(double below, double here, double above) {
    double left = here - below, right = above - here;
    return left * right > 0 ? left * right / (left + right) : 0;
}

// Value at the face between two zones, taken from where the flow comes from.
static double upwind(double courant_number, double below, double slope_below, double above, double slope_above) {
    return courant_number >= 0 ? below + (1 - courant_number) * slope_below
                               : above - (1 + courant_number) * slope_above;
}

// Outflow: ghost zones have the values of the last zone inside.
static void fill_ghosts(double *field) {
    for (int direction = 0; direction < 3; direction++) {
        int one = (direction + 1) % 3, other = (direction + 2) % 3;
        for (long a = -GHOSTS; a < zones + GHOSTS; a++)
            for (long b = -GHOSTS; b < zones + GHOSTS; b++) {
                double *line = field + a * strides[one] + b * strides[other];
                for (long ghost = 1; ghost <= GHOSTS; ghost++) {
                    line[-ghost * strides[direction]] = line[0];
                    line[(zones - 1 + ghost) * strides[direction]] = line[(zones - 1) * strides[direction]];
                }
            }
    }
}

static void fill_all_ghosts(void) {
    fill_ghosts(density);
    fill_ghosts(energy);
    for (int direction = 0; direction < 3; direction++)
        fill_ghosts(velocity[direction]);
}

// Pressure gradients.
static void forces(void) {
    for (long k = 0; k < zones; k++)
        for (long j = 0; j < zones; j++)
            for (long i = 0; i < zones; i++) {
                long zone = at(i, j, k);
                double pressure = (gamma_gas - 1) * energy[zone];
                for (int direction = 0; direction < 3; direction++) {
                    long below = zone - strides[direction];
                    double gradient = (pressure - (gamma_gas - 1) * energy[below]) / dx;
                    velocity_next[direction][zone] =
                        velocity[direction][zone] - dt * 2 * gradient / (density[below] + density[zone]);
                }
            }
    for (int direction = 0; direction < 3; direction++)
        fill_ghosts(velocity_next[direction]);
}

static double viscous_pressure(long zone, int direction) {
    double difference =
        velocity_next[direction][zone + strides[direction]] - velocity_next[direction][zone];
    return difference < 0 ? viscosity * density[zone] * difference * difference : 0;
}

// Artificial viscosity of von Neumann and Richtmyer.
static void viscous_forces(void) {
    for (long k = 0; k < zones; k++)
        for (long j = 0; j < zones; j++)
            for (long i = 0; i < zones; i++) {
                long zone = at(i, j, k);
                double heating = 0;
                for (int direction = 0; direction < 3; direction++) {
                    long stride = strides[direction];
                    double here = viscous_pressure(zone, direction);
                    double below = viscous_pressure(zone - stride, direction);
                    velocity[direction][zone] =
                        velocity_next[direction][zone]
                        - dt * 2 * (here - below) / dx / (density[zone - stride] + density[zone]);
                    heating += here
                        * (velocity_next[direction][zone + stride] - velocity_next[direction][zone]);
                }
                energy[zone] -= dt * heating / dx;
            }
    for (int direction = 0; direction < 3; direction++)
        fill_ghosts(velocity[direction]);
}

// Work of compression; energy for each unit of mass, which the sweeps interpolate; momenta.
static void compression(void) {
    for (long k = 0; k < zones; k++)
        for (long j = 0; j < zones; j++)
            for (long i = 0; i < zones; i++) {
                long zone = at(i, j, k);
                double divergence = 0;
                for (int direction = 0; direction < 3; direction++)
                    divergence += (velocity[direction][zone + strides[direction]] - velocity[direction][zone]) / dx;
                double half = 0.5 * dt * (gamma_gas - 1) * divergence;
                energy[zone] *= (1 - half) / (1 + half);
                energy_of_mass[zone] = energy[zone] / density[zone];
            }
    for (long k = 0; k < zones; k++)
        for (long j = 0; j < zones; j++)
            for (long i = 0; i < zones; i++) {
                long zone = at(i, j, k);
                for (int direction = 0; direction < 3; direction++)
                    momentum[direction][zone] = velocity[direction][zone] * 0.5
                        * (density[zone - strides[direction]] + density[zone]);
            }
}

static double slopes[LONGEST][LINES], energy_slopes[LONGEST][LINES];
static double fluxes[LONGEST][LINES], energy_fluxes[LONGEST][LINES];

// Density and energy along lines that begin at `line`.
static void transport_zones(long line, int direction, long lines) {
    long stride = strides[direction];
    for (long p = -1; p <= zones; p++)
        for (long c = 0; c < lines; c++) {
            long zone = line + p * stride + c;
            slopes[p + 1][c] = slope(density[zone - stride], density[zone], density[zone + stride]);
            energy_slopes[p + 1][c] =
                slope(energy_of_mass[zone - stride], energy_of_mass[zone], energy_of_mass[zone + stride]);
        }
    for (long p = 0; p <= zones; p++)
        for (long c = 0; c < lines; c++) {
            long zone = line + p * stride + c;
            double number = velocity[direction][zone] * dt / dx;
            fluxes[p][c] =
                number * upwind(number, density[zone - stride], slopes[p][c], density[zone], slopes[p + 1][c]);
            energy_fluxes[p][c] = fluxes[p][c]
                * upwind(number, energy_of_mass[zone - stride], energy_slopes[p][c], energy_of_mass[zone],
                         energy_slopes[p + 1][c]);
        }
    for (long p = 0; p < zones; p++)
        for (long c = 0; c < lines; c++) {
            long zone = line + p * stride + c;
            mass_flux[zone] = fluxes[p][c];
            density_next[zone] = density[zone] - fluxes[p + 1][c] + fluxes[p][c];
            energy[zone] += energy_fluxes[p][c] - energy_fluxes[p + 1][c];
            energy_of_mass_next[zone] = energy[zone] / density_next[zone];
        }
    for (long c = 0; c < lines; c++)
        mass_flux[line + zones * stride + c] = fluxes[zones][c];
}

// One component of momentum along lines that begin at `line`. It lies on the lower faces of its own direction, so its
// faces are half a zone from those of the masses that carry it.
static void transport_momentum(long line, int direction, long lines, int component) {
    long stride = strides[direction], across = strides[component];
    double *moved = momentum[component], *speed = velocity[component];
    int along = component == direction;
    for (long p = -1; p <= zones; p++)
        for (long c = 0; c < lines; c++) {
            long zone = line + p * stride + c;
            slopes[p + 1][c] = slope(speed[zone - stride], speed[zone], speed[zone + stride]);
        }
    for (long p = 0; p <= zones; p++)
        for (long c = 0; c < lines; c++) {
            long zone = line + p * stride + c;
            double number = 0.5 * (velocity[direction][zone - across] + velocity[direction][zone]) * dt / dx;
            double mass = 0.5 * (mass_flux[zone - across] + mass_flux[zone]);
            fluxes[p][c] =
                mass * upwind(number, speed[zone - stride], slopes[p][c], speed[zone], slopes[p + 1][c]);
        }
    for (long p = along; p < zones; p++)
        for (long c = 0; c < lines; c++) {
            long zone = line + p * stride + c;
            moved[zone] += fluxes[p][c] - fluxes[p + 1][c];
        }
}

static void swap(double **one, double **other) {
    double *kept = *one;
    *one = *other;
    *other = kept;
}

static void sweep(int direction) {
    int outer = direction == 2 ? 1 : 2, middle = direction == 0 ? 1 : 0;
    long lines = direction == 0 ? 1 : LINES;
    for (long a = 0; a < zones; a++)
        for (long b = 0; b < zones; b += lines)
            transport_zones(a * strides[outer] + b * strides[middle], direction, lines);
    for (long a = 0; a < zones; a++)
        for (long b = 0; b < zones; b += lines)
            for (int component = 0; component < 3; component++)
                transport_momentum(a * strides[outer] + b * strides[middle], direction, lines, component);
    swap(&density, &density_next);
    swap(&energy_of_mass, &energy_of_mass_next);
    fill_ghosts(density);
    fill_ghosts(energy_of_mass);
}

// Velocities of the new momenta, and the longest step that is stable.
static void new_step(void) {
    double fastest = 0;
    for (long k = 0; k < zones; k++)
        for (long j = 0; j < zones; j++)
            for (long i = 0; i < zones; i++) {
                long zone = at(i, j, k);
                double speed = 0;
                for (int direction = 0; direction < 3; direction++) {
                    velocity[direction][zone] =
                        momentum[direction][zone] * 2 / (density[zone - strides[direction]] + density[zone]);
                    speed += fabs(velocity[direction][zone]);
                }
                speed += sqrt(3 * gamma_gas * (gamma_gas - 1) * energy[zone] / density[zone]);
                if (speed > fastest)
                    fastest = speed;
            }
    dt = courant * dx / fastest;
}

int main(int argc, char **argv) {
    static const int orders[6][3] = {{0, 1, 2}, {1, 0, 2}, {1, 2, 0}, {2, 1, 0}, {2, 0, 1}, {0, 2, 1}};
    if (argc != 3 || (zones = atol(argv[1])) < LINES || zones % LINES || zones + 2 > LONGEST) {
        fprintf(stderr, "zeus ZONES STEPS, ZONES a multiple of 4 up to 1020\n");
        return 2;
    }
    long steps = atol(argv[2]), side = zones + 2 * GHOSTS;
    for (int direction = 0; direction < 3; direction++)
        strides[direction] = direction ? strides[direction - 1] * side : 1;
    dx = 1.0 / zones;
    double **arrays[] = {&density, &energy, &velocity[0], &velocity[1], &velocity[2], &density_next, &energy_of_mass,
                         &energy_of_mass_next, &mass_flux, &momentum[0], &momentum[1], &momentum[2],
                         &velocity_next[0], &velocity_next[1], &velocity_next[2]};
    for (unsigned i = 0; i < sizeof arrays / sizeof *arrays; i++)
        *arrays[i] = array();
    for (long k = 0; k < zones; k++)
        for (long j = 0; j < zones; j++)
            for (long i = 0; i < zones; i++) {
                int inside = (double)(i * i + j * j + k * k) * dx * dx < 0.01;
                density[at(i, j, k)] = 1;
                energy[at(i, j, k)] = inside ? 100 : 1;
            }
    new_step();
    for (long step = 0; step < steps; step++) {
        fill_all_ghosts();
        forces();
        viscous_forces();
        compression();
        fill_ghosts(energy_of_mass);
        for (int i = 0; i < 3; i++)
            sweep(orders[step % 6][i]);
        new_step();
    }
    double mass = 0;
    for (long k = 0; k < zones; k++)
        for (long j = 0; j < zones; j++)
            for (long i = 0; i < zones; i++)
                mass += density[at(i, j, k)] * dx * dx * dx;
    printf("%g of 1\n", mass);
    return 0;
}
