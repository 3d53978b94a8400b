/* A library that tells of a solver by one software-defined event of each kind. */
void begin_events(void);
void tell(double residual);
