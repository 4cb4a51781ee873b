/* Shor's order finding on a simulated quantum register: libquantum NUMBER BASE.
 *
 * The register holds every exponent below NUMBER squared at once; the quantum part raises BASE to
 * all of them modulo NUMBER, gate by gate, each a pass over the register. */
#include <quantum.h>
#include <stdio.h>
#include <stdlib.h>

int main(int count, char **arguments) {
    int number = count > 1 ? atoi(arguments[1]) : 15;
    int base = count > 2 ? atoi(arguments[2]) : 7;
    if (number < 15 || quantum_gcd(number, base) != 1) {
        fputs("libquantum: NUMBER of 15 or more and a BASE without common divisor\n", stderr);
        return 1;
    }
    int exponent_bits = quantum_getwidth(number * number);
    int bits = quantum_getwidth(number);
    quantum_reg reg = quantum_new_qureg(0, exponent_bits);
    for (int bit = 0; bit < exponent_bits; bit++)
        quantum_hadamard(bit, &reg);
    fprintf(stderr, "libquantum: %d states\n", reg.size);
    quantum_addscratch(3 * bits + 2, &reg);
    quantum_exp_mod_n(number, base, exponent_bits, bits, &reg);
    for (int bit = 0; bit < 3 * bits + 2; bit++)
        quantum_bmeasure(0, &reg);
    quantum_qft(exponent_bits, &reg);
    printf("measured: %llu of 2^%d\n", quantum_measure(reg), exponent_bits);
    quantum_delete_qureg(&reg);
}
