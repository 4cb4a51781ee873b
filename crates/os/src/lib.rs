//! Physical memory, address spaces and the policies that map them.
