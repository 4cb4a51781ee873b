; A pulse in a cube of metal with a sphere of glass: Maxwell's equations on Yee's grid (meep).
; meep edge=10 resolution=16 cavity.ctl
(define-param edge 10)
(set-param! resolution 10)
(set! geometry-lattice (make lattice (size edge edge edge)))
(set! eps-averaging? false)
(set! geometry
  (list (make sphere (center 0 0 0) (radius (/ edge 4))
              (material (make dielectric (epsilon 2.25))))))
(set! sources
  (list (make source (src (make gaussian-src (frequency 0.5) (fwidth 0.4)))
                     (component Ez) (center (/ edge 3) 0 0))
        (make source (src (make gaussian-src (frequency 0.5) (fwidth 0.4)))
                     (component Hz) (center 0 (/ edge 3) 0))))
(run-until 1000)
